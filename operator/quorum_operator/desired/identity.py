"""The identity ConfigMap: immutable, create-only, one per formation (design, Safety)."""

from typing import Any

from quorum_operator.desired.names import ANNOTATION_TLS_STAGE, PREFIX, Owner, metadata
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
    tls: bool = False,
    migration: TlsStage = TlsStage.PLAIN,
) -> dict[str, Any]:
    """The ConfigMap; whoever creates it first decides, every later attempt is refused.

    `formed`: it is made again for a quorum that has formed. That stands in its data, which nobody can change.
    `network_policy`: what is so unless the spec says otherwise; identities of an earlier version don't have it.
    `tls`: whether its members have certificates, for as long as the quorum is there. `migration`: how far one without is on the way.
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
            **({"tls": TLS_ON} if tls else {}),
        },
    }
