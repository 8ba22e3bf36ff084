"""`spec.networkPolicy` of a MetadataQuorum: whether there is a NetworkPolicy, and additional allowed peers.

The peers have exactly the fields of networking.k8s.io/v1, so that the API server stores them unchanged and drift can
be detected.
"""

from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, cel_rule

_MOST_PEERS = 16


class NetworkPolicyMode(StrEnum):
    """Whether the operator manages a NetworkPolicy for the members."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class SelectorOperator(StrEnum):
    """Comparison of a label."""

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
    """Label selector; an empty one selects all objects."""

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
    """A peer as in a NetworkPolicy: pods by label, in this or other namespaces, or a block of addresses."""

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
    """A NetworkPolicy for the members. It allows members, the operator, pods of the namespace with the labels
    metadataquorum.dev/quorum (the quorum's name) and metadataquorum.dev/role (broker or client), and the listed
    peers.
    """

    mode: NetworkPolicyMode | None = Field(
        default=None,
        description=(
            "Enabled or Disabled. Default: Enabled, except for quorums formed by an operator version without this "
            "field."
        ),
    )
    controller_from: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Further peers that reach the Kafka port, 9093: brokers and tools in other namespaces.",
    )
    admin_from: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Further peers that reach the admin API: port 8443, or 8080 in clear text.",
    )
    metrics_from: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Peers that scrape metrics, at port 8080. In clear text this is also the port of the admin API.",
    )
    egress_to: list[NetworkPeer] | None = Field(
        default=None,
        json_schema_extra=_PEERS,
        description="Further peers that members may connect to, such as voters that are not pods of this quorum.",
    )
