"""The derived packet filter against the sentences of the NetworkPolicy API, on generated policies."""

import ipaddress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.packet_filter import Packet, Pod, derive

Json = dict[str, Any]

SPACES = {"a": {"team": "x"}, "b": {"team": "y"}, "c": {}}
KEYS, VALUES = ("app", "role"), ("x", "y")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from((*KEYS, "team")),
            "operator": st.sampled_from(("In", "NotIn")),
            "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from((*KEYS, "team")),
            "operator": st.sampled_from(("Exists", "DoesNotExist")),
        }
    ),
)
selectors = st.fixed_dictionaries(
    {}, optional={"matchLabels": labels, "matchExpressions": st.lists(expressions, max_size=1)}
)
space_selectors = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"matchLabels": st.sampled_from(({"team": "x"}, {"team": "z"}))}),
    st.fixed_dictionaries({"matchExpressions": st.lists(expressions, min_size=1, max_size=1)}),
)
blocks = st.sampled_from(
    (
        {"cidr": "10.0.0.0/8"},
        {"cidr": "10.0.0.0/8", "except": ["10.0.0.2/31"]},
        {"cidr": "192.0.2.7/32"},
        {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/29"]},
    )
)
peers = st.one_of(
    st.fixed_dictionaries({"podSelector": selectors}),
    st.fixed_dictionaries({"namespaceSelector": space_selectors}),
    st.fixed_dictionaries({"namespaceSelector": space_selectors, "podSelector": selectors}),
    st.fixed_dictionaries({"ipBlock": blocks}),
)
ports = st.one_of(
    st.sampled_from(({}, {"protocol": "UDP"}, {"port": 80}, {"port": "web"}, {"port": "none"})),
    st.sampled_from(({"port": 80, "protocol": "UDP"}, {"port": 70, "endPort": 90})),
)


def rules(word: str) -> st.SearchStrategy[list[Json]]:
    parts = {word: st.lists(peers, max_size=2), "ports": st.lists(ports, max_size=2)}
    return st.lists(st.fixed_dictionaries({}, optional=parts), max_size=2)


types = st.sampled_from((["Ingress"], ["Egress"], ["Ingress", "Egress"]))
policies = st.builds(
    lambda space, spec: {"metadata": {"namespace": space}, "spec": spec},
    st.sampled_from(tuple(SPACES)),
    st.fixed_dictionaries(
        {"podSelector": selectors},
        optional={"policyTypes": types, "ingress": rules("from"), "egress": rules("to")},
    ),
)


def pod(number: int, space: str, own: dict[str, str], web: int) -> Pod:
    host = f"172.16.0.{number % 2}"
    return Pod(f"p{number}", space, f"10.0.0.{number}", own, {"web": web}, host)


worlds = st.lists(
    st.tuples(st.sampled_from(tuple(SPACES)), labels, st.sampled_from((80, 81))),
    min_size=2,
    max_size=4,
).map(lambda drawn: [pod(number, *each) for number, each in enumerate(drawn, 1)])
packets = st.builds(
    lambda number, protocol: (number, protocol),
    st.sampled_from((22, 70, 80, 81, 90)),
    st.sampled_from(("TCP", "UDP")),
)
OUTSIDE = Pod("outside", "", "192.0.2.7")


# ---- The sentences of the API, read one by one for one connection.


def reads_selector(selector: Json, own: dict[str, str]) -> bool:
    """The result of matchLabels and matchExpressions are ANDed. An empty label selector matches all objects."""
    wanted = [(k, "In", [v]) for k, v in (selector.get("matchLabels") or {}).items()]
    wanted += [
        (each["key"], each["operator"], each.get("values", []))
        for each in selector.get("matchExpressions") or []
    ]
    verdicts = {
        "In": lambda value, values: value is not None and value in values,
        "NotIn": lambda value, values: value is None or value not in values,
        "Exists": lambda value, values: value is not None,
        "DoesNotExist": lambda value, values: value is None,
    }
    return all(verdicts[operator](own.get(key), values) for key, operator, values in wanted)


def reads_peer(peer: Json, other: Pod, space: str) -> bool:
    """podSelector: of the policy's own namespace, or of those that namespaceSelector selects."""
    if "ipBlock" in peer:
        block, address = peer["ipBlock"], ipaddress.ip_address(other.address)
        inside = address in ipaddress.ip_network(block["cidr"])
        return inside and all(
            address not in ipaddress.ip_network(hole) for hole in block.get("except", [])
        )
    if other is OUTSIDE:
        return False
    if "namespaceSelector" in peer:
        in_space = reads_selector(peer["namespaceSelector"], SPACES[other.namespace])
    else:
        in_space = other.namespace == space
    return in_space and reads_selector(peer.get("podSelector", {}), dict(other.labels))


def reads_port(reported: Json, server: Pod, number: int, protocol: str) -> bool:
    """protocol defaults to TCP. No port: all ports. endPort: the range from port to it."""
    if reported.get("protocol", "TCP") != protocol:
        return False
    port = reported.get("port")
    if isinstance(port, str):
        return server.ports.get(port) == number
    return port is None or port <= number <= reported.get("endPort", port)


def reads_direction(
    policies: list[Json], kind: str, own: Pod, other: Pod, number: int, protocol: str
) -> bool:
    """A pod that no policy of the direction selects is not isolated. Else any rule of any of them allows."""
    word, server = ("from", own) if kind == "Ingress" else ("to", other)
    isolated = False
    for policy in policies:
        spec, space = policy["spec"], policy["metadata"]["namespace"]
        default = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        if kind not in spec.get("policyTypes", default) or own is OUTSIDE:
            continue
        if own.namespace != space or not reads_selector(spec["podSelector"], dict(own.labels)):
            continue
        isolated = True
        for rule in spec.get(kind.lower(), []):
            by_peer = not rule.get(word) or any(reads_peer(p, other, space) for p in rule[word])
            by_port = not rule.get("ports") or any(
                reads_port(p, server, number, protocol) for p in rule["ports"]
            )
            if by_peer and by_port:
                return True
    return not isolated


def reads(policies: list[Json], source: Pod, target: Pod, number: int, protocol: str) -> bool:
    """Both the egress of the source and the ingress of the destination have to allow it."""
    if source is target:
        return True
    return reads_direction(
        policies, "Egress", source, target, number, protocol
    ) and reads_direction(policies, "Ingress", target, source, number, protocol)


@settings(max_examples=300)
@given(st.lists(policies, max_size=3), worlds, packets)
def test_rules_match_their_descriptions(
    drawn: list[Json], pods: list[Pod], packet: tuple[int, str]
) -> None:
    number, protocol = packet
    derived = derive(drawn, pods, SPACES)
    for source in (*pods, OUTSIDE):
        for target in (*pods, OUTSIDE):
            requested = Packet(source.address, target.address, number, protocol)
            assert derived.passes(requested) == reads(drawn, source, target, number, protocol)


@given(policies, policies, worlds, packets)
def test_policies_of_one_pod_are_combined_in_any_order(
    one: Json, two: Json, pods: list[Pod], packet: tuple[int, str]
) -> None:
    for target in pods[1:]:
        requested = Packet(pods[0].address, target.address, *packet)
        together = derive([one, two], pods, SPACES).passes(requested)
        assert together == derive([two, one], pods, SPACES).passes(requested)
        alone = [derive([each], pods, SPACES).passes(requested) for each in (one, two)]
        if not together:
            assert not all(alone), "each policy allows it, but not both together"


@given(policies, worlds)
def test_host_of_a_pod_and_the_pod_itself_are_always_allowed(policy: Json, pods: list[Pod]) -> None:
    derived = derive([policy], pods, SPACES)
    for each in pods:
        assert derived.passes(Packet(each.host, each.address, 8080))
        assert derived.passes(Packet(each.address, each.host, 10250))
        assert derived.passes(Packet(each.address, each.address, 8080))


def test_invalid_operator_is_an_error() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    policy = {"metadata": {"namespace": "a"}, "spec": {"podSelector": selector}}
    with pytest.raises(ValueError, match="Near"):
        derive([policy], [pod(1, "a", {}, 80)], SPACES)
