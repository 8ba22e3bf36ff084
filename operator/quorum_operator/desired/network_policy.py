"""The NetworkPolicy of the members: allowed incoming and outgoing connections. Pure.

New quorums have it by default. The default is recorded in the identity when the quorum forms, so an upgrade of the
operator isolates no client.
"""

from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired.names import (
    ADMIN_PORT,
    CONTROLLER_PORT,
    LABEL_INSTANCE,
    LABEL_NAME,
    LABEL_QUORUM,
    LABEL_ROLE,
    OPERATOR_APP,
    SECURE_ADMIN_PORT,
    Owner,
    metadata,
)
from quorum_operator.desired.tls import admin_port
from quorum_operator.network_policy_crd import NetworkPeer, NetworkPolicyMode, NetworkPolicySpec
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import TlsStage

KIND = "NetworkPolicy"
ROLES = ("broker", "client")
"""Values of LABEL_ROLE of pods that may reach the Kafka port."""
DNS_PORTS = (53, 5353)
"""DNS ports. A policy applies to the port of the serving pod; DNS pods of OpenShift listen on 5353."""

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label of every namespace with its name, set by the API server."""

Rule = dict[str, Any]


def is_wanted(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> bool | None:
    """Whether the policy should exist. None: unknown without an identity; then nothing is created or deleted."""
    mode = spec.network_policy.mode if spec.network_policy is not None else None
    if mode is not None:
        return mode is NetworkPolicyMode.ENABLED
    if not identities:
        return None
    return max(identities, key=lambda each: each.index).network_policy


def build(
    owner: Owner,
    spec: MetadataQuorumSpec,
    stage: TlsStage = TlsStage.PLAIN,
    *,
    formed: bool = False,
) -> dict[str, Any]:
    """The policy. With TLS the admin API and the metrics have separate ports; during a migration the admin API has
    both. Kubelet probes are always allowed. Until the quorum has `formed`, the founder may reach the object store that
    it restores from.
    """
    secured = stage is TlsStage.CLOSED
    policy = spec.network_policy or NetworkPolicySpec()
    members: Rule = {"podSelector": {"matchLabels": _members(owner)}}
    holders = {
        "matchLabels": {LABEL_QUORUM: owner.name},
        "matchExpressions": [{"key": LABEL_ROLE, "operator": "In", "values": list(ROLES)}],
    }
    admin = [members, *_operator(owner), *_peers(policy.admin_from)]
    metrics = _peers(policy.metrics_from)
    admin_rules = [{"from": [*admin, *metrics], "ports": [_port(ADMIN_PORT)]}]
    if secured:
        admin_rules = [{"from": admin, "ports": [_port(SECURE_ADMIN_PORT)]}]
        # A rule without peers would admit every source.
        admin_rules += [{"from": metrics, "ports": [_port(ADMIN_PORT)]}] if metrics else []
    if stage.takes_both:
        admin_rules += [{"from": admin, "ports": [_port(SECURE_ADMIN_PORT)]}]
    controller = [members, {"podSelector": holders}, *_peers(policy.controller_from)]
    egress = [
        {"ports": [_port(port, kind) for port in DNS_PORTS for kind in ("UDP", "TCP")]},
        {
            "to": [members],
            "ports": [
                _port(CONTROLLER_PORT),
                _port(admin_port(secured)),
                *([_port(SECURE_ADMIN_PORT)] if stage.takes_both else []),
            ],
        },
    ]
    source = spec.restore_from
    if source is not None and source.object_store is not None and not formed:
        egress.append({"ports": [_port(source.object_store.port)]})
    if policy.egress_to:
        egress.append({"to": _peers(policy.egress_to)})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": KIND,
        "metadata": metadata(owner, owner.network_policy),
        "spec": {
            "podSelector": {"matchLabels": _members(owner)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": controller, "ports": [_port(CONTROLLER_PORT)]},
                *admin_rules,
            ],
            "egress": egress,
        },
    }


def _members(owner: Owner) -> dict[str, str]:
    # The same selector as that of the Services: pods of an earlier version have no LABEL_QUORUM.
    return {key: owner.labels[key] for key in (LABEL_NAME, LABEL_INSTANCE)}


def _operator(owner: Owner) -> list[Rule]:
    """The peer of the operator's pods. An operator outside of the cluster needs spec.networkPolicy.adminFrom."""
    if not owner.operator_namespace:
        return []
    space = {"matchLabels": {_NAMESPACE_NAME: owner.operator_namespace}}
    pods = {"matchLabels": {LABEL_NAME: OPERATOR_APP}}
    return [{"namespaceSelector": space, "podSelector": pods}]


def _port(number: int, protocol: str = "TCP") -> Rule:
    return {"protocol": protocol, "port": number}


def _peers(peers: list[NetworkPeer] | None) -> list[Rule]:
    return [_peer(each) for each in peers or ()]


def _peer(peer: NetworkPeer) -> Rule:
    found: Rule = peer.model_dump(by_alias=True, exclude_none=True, mode="json")
    # The API server drops empty lists and maps inside a selector, but keeps the selector itself.
    return {
        name: {key: _filled(value) for key, value in part.items() if value}
        for name, part in found.items()
    }


def _filled(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [
        {key: part for key, part in each.items() if part} if isinstance(each, dict) else each
        for each in value
    ]
