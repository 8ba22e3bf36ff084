"""Which revision of the spec a member should run: the new one, or the one that all members have run. Pure.

While an update is held back, or only a canary has it, all other members keep the revision recorded on the identity,
including recreated pods.
"""

import hashlib
import json
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import pod_template
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.update_record import Revision, UpdateOutcome, tried_text
from quorum_operator.quantity import canonical

_PARTS = ("image", "resources", "config", "podTemplate")
CANDIDATE_FILE = "candidate.properties"
"""Key of the ConfigMap with the new configuration, which the canary reads first."""


def wanted(spec: MetadataQuorumSpec) -> Revision:
    """The revision of the current spec."""
    document = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    parts = {key: document[key] for key in _PARTS if key in document}
    program = [
        spec.image,
        resources(spec),
        written(spec.config or {}),
        *pod_template.restarts(spec),
    ]
    text = json.dumps(program, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Revision(digest, json.dumps(parts, sort_keys=True))


def written(overrides: dict[str, str]) -> dict[str, str]:
    """The values as they are written to the file: without surrounding spaces, which change nothing."""
    return {key: value.strip() for key, value in overrides.items()}


def for_member(
    spec: MetadataQuorumSpec, identity: Identity | None, member: str | None
) -> MetadataQuorumSpec:
    """The spec with the revision of this member; `member`: name of its StatefulSet, None for objects shared by all."""
    record = identity.update if identity is not None else None
    if spec.update is None or record is None:
        return spec
    revision = wanted(spec)
    tried = tried_text(revision.id, spec.update.attempt)
    if record.allows(revision.id, tried, member):
        return spec
    return _with_parts(spec, record.settled.parts)


def is_candidate(spec: MetadataQuorumSpec, identity: Identity, member: str) -> bool:
    """Whether a member runs the new configuration before the others."""
    record = identity.update
    if spec.update is None or record is None or record.outcome is not UpdateOutcome.SOAKING:
        return False
    revision = wanted(spec)
    tried = tried_text(revision.id, spec.update.attempt)
    return (tried, member) == (record.tried, record.canary) and revision.id != record.settled.id


def resources(spec: MetadataQuorumSpec) -> dict[str, Any] | None:
    """Requests and limits in canonical form, so that a different notation of the same quantity causes no restart."""
    if spec.resources is None:
        return None
    return {
        key: {name: canonical(each) for name, each in value.items()}
        if key in {"requests", "limits"} and isinstance(value, dict)
        else value
        for key, value in spec.resources.items()
    }


def _with_parts(spec: MetadataQuorumSpec, parts: str) -> MetadataQuorumSpec:
    earlier = _parsed(parts)
    if earlier is None:
        return spec  # an unreadable revision is ignored
    return spec.model_copy(
        update={
            "image": earlier.image,
            "resources": earlier.resources,
            "config": earlier.config,
            "pod_template": earlier.pod_template,
        }
    )


@lru_cache(maxsize=64)
def _parsed(parts: str) -> MetadataQuorumSpec | None:
    try:
        return MetadataQuorumSpec.model_validate_json(parts)
    except ValidationError:
        return None
