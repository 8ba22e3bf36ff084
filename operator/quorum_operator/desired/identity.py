"""The identity ConfigMap: immutable, create-only, one per formation."""

from typing import Any

from quorum_operator.desired.names import ANNOTATION_TLS_STAGE, PREFIX, Owner, metadata
from quorum_operator.planner.formation_defaults import Defaults, defaults_text
from quorum_operator.planner.tls_stage import TlsStage

LABEL_IDENTITY = f"{PREFIX}/identity"
TLS_ON = "Managed"


def labels(owner: Owner, index: int) -> dict[str, str]:
    """Labels of the `index`-th formation's identity."""
    return {**owner.labels, LABEL_IDENTITY: str(index)}


def build(
    owner: Owner,
    *,
    index: int,
    cluster_id: str,
    founder_id: int,
    founder_uuid: str,
    initial_voters: int,
    formed: bool = False,
    network_policy: bool = True,
    defaults: Defaults = frozenset(),
    tls: bool = False,
    migration: TlsStage = TlsStage.PLAIN,
) -> dict[str, Any]:
    """The ConfigMap; the first creation wins, later ones are rejected.

    `formed`: it is recreated for a quorum that has formed; this is in its immutable data. `network_policy`: the
    default unless the spec sets it; identities of an earlier version don't have it. `defaults`: others of the version that forms the quorum. `tls`: whether its members have
    certificates, permanently. `migration`: the stage of a TLS migration.
    """
    meta = metadata(owner, owner.identity(index))
    meta["labels"] = labels(owner, index)
    if migration is not TlsStage.PLAIN:
        meta["annotations"] = {ANNOTATION_TLS_STAGE: migration.value}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "immutable": True,
        "data": {
            "clusterId": cluster_id,
            "founderId": str(founder_id),
            "founderUuid": founder_uuid,
            "initialVoters": str(initial_voters),
            **({"formed": "true"} if formed else {}),
            **({"networkPolicy": "true"} if network_policy else {}),
            **({"defaults": defaults_text(defaults)} if defaults else {}),
            **({"tls": TLS_ON} if tls else {}),
        },
    }
