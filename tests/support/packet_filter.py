"""Packet filter rules derived from NetworkPolicies, as an enforcing network plugin would install them. Pure.

Owns the translation of networking.k8s.io/v1 policies, for the pods that are there, into rules on addresses: for each pod whether
it is isolated in a direction, and which addresses and ports its rules let through. A packet is judged by addresses, protocol
and port alone. Follows the text of the NetworkPolicy API reference and of "Network Policies" in the Kubernetes documentation.
Answers to a connection that was allowed are not judged: plugins track connections.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Pod:
    """The properties of a pod that a policy can use. `host`: the address of its node, whose traffic always passes."""

    name: str
    namespace: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    host: str = ""


@dataclass(frozen=True, slots=True)
class Packet:
    """The first packet of a connection."""

    source: str
    destination: str
    port: int
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports from `first` to `last` of a protocol. `only_at`: a named port has another number on each destination."""

    protocol: str
    first: int = 0
    last: int = 65535
    only_at: str | None = None

    def fits(self, packet: Packet) -> bool:
        return (
            packet.protocol == self.protocol
            and self.first <= packet.port <= self.last
            and self.only_at in {None, packet.destination}
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """Lets packets of these peers to these ports through; None: all of them."""

    peers: frozenset[str] | None
    blocks: tuple[tuple[Network, tuple[Network, ...]], ...]
    ports: tuple[Ports, ...] | None

    def passes(self, peer: str, packet: Packet) -> bool:
        if self.ports is not None and not any(each.fits(packet) for each in self.ports):
            return False
        if self.peers is None or peer in self.peers:
            return True
        address = ipaddress.ip_address(peer)
        return any(
            address in block and not any(address in hole for hole in holes)
            for block, holes in self.blocks
        )


@dataclass(frozen=True, slots=True)
class Filter:
    """Chains of rules by the pod's address; an address without a chain is not isolated in that direction."""

    ingress: Mapping[str, tuple[Rule, ...]]
    egress: Mapping[str, tuple[Rule, ...]]
    hosts: Mapping[str, str]

    def passes(self, packet: Packet) -> bool:
        """Whether a connection is allowed by the sender's egress and the receiver's ingress rules."""
        source, destination = packet.source, packet.destination
        if source == destination:
            return True  # a policy never blocks a pod's traffic to itself
        leaves = self.hosts.get(source) == destination or _allowed(
            self.egress.get(source), destination, packet
        )
        arrives = self.hosts.get(destination) == source or _allowed(
            self.ingress.get(destination), source, packet
        )
        return leaves and arrives


def _allowed(chain: tuple[Rule, ...] | None, peer: str, packet: Packet) -> bool:
    return chain is None or any(rule.passes(peer, packet) for rule in chain)


def derive(
    policies: Iterable[Json], pods: Sequence[Pod], namespaces: Mapping[str, Mapping[str, str]]
) -> Filter:
    """The rules for these pods. `namespaces`: name → labels."""
    ingress: dict[str, tuple[Rule, ...]] = {}
    egress: dict[str, tuple[Rule, ...]] = {}
    for policy in policies:
        spec, space = policy["spec"], policy["metadata"]["namespace"]
        selected = [
            pod
            for pod in pods
            if pod.namespace == space and selects(spec.get("podSelector"), pod.labels)
        ]
        for kind, chains, word in (("Ingress", ingress, "from"), ("Egress", egress, "to")):
            if kind not in _types(spec):
                continue
            for pod in selected:
                # The ports of an ingress rule are this pod's own; those of an egress rule are its peers'.
                served = [pod] if kind == "Ingress" else pods
                made = tuple(
                    _rule(rule, word, space, served, pods, namespaces)
                    for rule in spec.get(kind.lower()) or ()
                )
                chains[pod.address] = chains.get(pod.address, ()) + made
    return Filter(ingress, egress, {pod.address: pod.host for pod in pods if pod.host})


def _types(spec: Json) -> list[str]:
    """Left out, a policy is one for ingress, and for egress as well if it has such rules."""
    reported: list[str] = spec.get("policyTypes") or []
    return reported or ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _rule(
    rule: Json,
    word: str,
    space: str,
    served: Sequence[Pod],
    pods: Sequence[Pod],
    namespaces: Mapping[str, Mapping[str, str]],
) -> Rule:
    reported = rule.get(word) or []
    peers, blocks = set(), []
    for peer in reported:
        if "ipBlock" in peer:
            block = peer["ipBlock"]
            holes = tuple(ipaddress.ip_network(each) for each in block.get("except") or ())
            blocks.append((ipaddress.ip_network(block["cidr"]), holes))
            continue
        spaces = _spaces(peer, space, namespaces)
        peers |= {
            pod.address
            for pod in pods
            if pod.namespace in spaces and selects(peer.get("podSelector") or {}, pod.labels)
        }
    ports = tuple(made for each in rule.get("ports") or () for made in _ports(each, served))
    return Rule(
        frozenset(peers) if reported else None, tuple(blocks), ports if rule.get("ports") else None
    )


def _spaces(peer: Json, own: str, namespaces: Mapping[str, Mapping[str, str]]) -> set[str]:
    selector = peer.get("namespaceSelector")
    if selector is None:
        return {own}
    return {name for name, labels in namespaces.items() if selects(selector, labels)}


def _ports(reported: Json, served: Sequence[Pod]) -> list[Ports]:
    protocol, port = reported.get("protocol", "TCP"), reported.get("port")
    if port is None:
        return [Ports(protocol)]
    if isinstance(port, int):
        return [Ports(protocol, port, reported.get("endPort", port))]
    named = [(pod.address, pod.ports[port]) for pod in served if port in pod.ports]
    return [Ports(protocol, number, number, address) for address, number in named]


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector, which may be empty, selects what has these labels."""
    selector = selector or {}
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    return all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def _meets(requirement: Json, labels: Mapping[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise ValueError(f"no operator of a label selector: {other}")
