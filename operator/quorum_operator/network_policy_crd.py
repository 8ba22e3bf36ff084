"""`spec.networkPolicy` of a MetadataQuorum: whether there is a NetworkPolicy, and who may reach the members beside those it knows.

The peers have exactly the fields of networking.k8s.io/v1: what the API server keeps of them is what was written, so that
drift is told from a difference in notation.
"""

from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, cel_rule

_MOST_PEERS = 16


class NetworkPolicyMode(StrEnum):
    """Whether the operator keeps a NetworkPolicy for the members."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class SelectorOperator(StrEnum):
    """How a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelExpression(CrdModel):
    """One requirement on a label."""

    key: str = Field(min_length=1, max_length=316)
    operator: SelectorOperator
    values: list[str] | None = Field(default=None, json_schema_extra={"maxItems": 64})


class LabelSelector(CrdModel):
    """Objects by their labels; an empty one selects all."""

    match_labels: dict[str, str] | None = Field(
        default=None, json_schema_extra={"maxProperties": 16}
    )
    match_expressions: list[LabelExpression] | None = Field(
        default=None, json_schema_extra={"maxItems": 16}
    )


class IpBlock(CrdModel):
    """Addresses outside of the pod network."""

    cidr: str = Field(max_length=64, description="Such as 10.1.0.0/16 or 2001:db8::/64.")
    except_: list[str] | None = Field(
        default=None, alias="except", json_schema_extra={"maxItems": 16}
    )


class NetworkPeer(CrdModel):
    """A peer as in a NetworkPolicy: pods by label, of one's own or of other namespaces, or a block of addresses."""

    model_config = ConfigDict(
        json_schema_extra=cel_rule(
            "has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",
            "a peer has either an ipBlock, or a podSelector, a namespaceSelector or both",
        )
    )

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IpBlock | None = None


_PEERS: dict[str, Any] = {"maxItems": _MOST_PEERS}


class NetworkPolicySpec(CrdModel):
    """A NetworkPolicy of the members. It lets in members, the operator, and pods of the namespace with the labels
    metadataquorum.dev/quorum (the quorum's name) and metadataquorum.dev/role (broker or client), and whom the lists name."""

    mode: NetworkPolicyMode | None = Field(
        default=None,
        description="Enabled or Disabled. Left out: as the quorum was formed, which is Enabled, but for quorums that an operator"
        " before this field has formed.",
    )
    controller_from: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Further peers that reach the Kafka port, 9093: brokers and tools in other namespaces.",
    )
    admin_from: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Further peers that reach the admin API, 8080.",
    )
    metrics_from: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Peers that scrape metrics. They are served on the port of the admin API, 8080.",
    )
    egress_to: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Further peers that members may reach, such as voters that are no pods of this quorum.",
    )
