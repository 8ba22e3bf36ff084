"""Adds the defaults of a quorum's formation to its spec. Pure."""

from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.planner.formation_defaults import FormationDefault
from quorum_operator.planner.observed import Identity
from quorum_operator.pod_template_crd import PodTemplateSpec, ZoneSpread

REQUESTS = {"requests": {"cpu": "100m", "memory": "256Mi"}}
"""A node with few topics uses about 100 MB. There is no limit: the memory grows with the metadata, and a member that is killed for it
would be killed again after each start."""
MEMBERSHIP_KEY = "admin.membership.on.controller.listener"


def with_defaults(spec: MetadataQuorumSpec, identity: Identity | None) -> MetadataQuorumSpec:
    """The spec with the defaults of its formation where it sets nothing."""
    defaults = frozenset() if identity is None else identity.defaults
    added: dict[str, Any] = {}
    if FormationDefault.RESOURCES in defaults and spec.resources is None:
        added["resources"] = REQUESTS
    if FormationDefault.NO_MEMBERSHIP in defaults:
        added["config"] = {MEMBERSHIP_KEY: "false", **(spec.config or {})}
    template = spec.pod_template or PodTemplateSpec()
    if FormationDefault.ZONES in defaults and template.zone_spread is None:
        spread = {"zone_spread": ZoneSpread.PREFERRED}
        added["pod_template"] = template.model_copy(update=spread)
    return spec.model_copy(update=added) if added else spec
