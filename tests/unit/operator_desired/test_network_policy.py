"""Who reaches a member by its network policy, and whom a member reaches: the whole matrix of pods and ports."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import network_policy, stateful_set
from quorum_operator.desired.names import Owner
from quorum_operator.planner.observed import Identity
from support.packet_filter import Pod
from support.reachability import (
    ADMIN,
    BY_DEFAULT,
    CONTROLLER,
    EVERYTHING,
    OPERATOR_SPACE,
    around,
    reached,
    reaches,
)

OWNER = Owner("demo", "space", "uid-1", OPERATOR_SPACE)
IDENTITY = Identity(1, "cluster", 1, "u", 3, formed=True, network_policy=True)
SCRAPER = {
    "podSelector": {"matchLabels": {"app": "prometheus"}},
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
}
ELSEWHERE = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}}


def spec(**requested: Any) -> MetadataQuorumSpec:
    return MetadataQuorumSpec.model_validate({"networkPolicy": requested} if requested else {})


def pods() -> list[Pod]:
    """Members with the labels that their template gives them."""
    templates = [
        stateful_set.build_template(OWNER, spec(), stateful_set.Member(number, 1, IDENTITY))
        for number in (1, 2)
    ]
    return around("space", "demo", [each["metadata"]["labels"] for each in templates])


def matrix(**requested: Any) -> dict[str, set[int]]:
    return reaches([network_policy.build(OWNER, spec(**requested))], "space", pods())


@pytest.mark.requirement("OP-01")
def test_default_policy_admits_members_the_operator_and_labelled_pods() -> None:
    assert matrix() == BY_DEFAULT


def test_all_pods_reach_all_ports_without_a_policy() -> None:
    assert set(map(frozenset, reaches([], "space", pods()).values())) == {frozenset(EVERYTHING)}


@pytest.mark.parametrize(
    ("requested", "changes"),
    [
        (
            {"controllerFrom": [ELSEWHERE]},
            {
                "broker of another namespace": {CONTROLLER},
                "member of a namesake": {CONTROLLER},
                "stranger elsewhere": {CONTROLLER},
            },
        ),
        ({"adminFrom": [{"podSelector": {"matchLabels": {"app": "web"}}}]}, {"stranger": {ADMIN}}),
        ({"metricsFrom": [SCRAPER]}, {"scraper": {ADMIN}}),
        ({"adminFrom": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}, {"outside": {ADMIN}}),
        (
            {"adminFrom": [{"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.8/30"]}}]},
            {},
        ),
        ({"egressTo": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}, {}),
    ],
)
@pytest.mark.requirement("OP-01")
def test_each_list_admits_only_its_peers(
    requested: dict[str, Any], changes: dict[str, set[int]]
) -> None:
    assert matrix(**requested) == BY_DEFAULT | changes


def test_operator_in_an_unknown_namespace_is_not_admitted() -> None:
    """A label alone would admit any pod that sets it."""
    outside = replace(OWNER, operator_namespace="")
    found = reaches([network_policy.build(outside, spec())], "space", pods())
    assert found == BY_DEFAULT | {"operator": set()}


def test_member_egress_is_limited_to_members_and_dns() -> None:
    found = reached([network_policy.build(OWNER, spec())], "space", pods())
    assert {name: ports for name, ports in found.items() if ports - {53}} == {
        "member 2": {CONTROLLER, ADMIN}
    }
    assert {name for name, ports in found.items() if 53 not in ports} == {"member 2"}


def test_egress_to_external_voters_is_opened_by_name() -> None:
    requested = spec(egressTo=[{"ipBlock": {"cidr": "203.0.113.9/32"}}])
    found = reached([network_policy.build(OWNER, requested)], "space", pods())
    assert found["outside"] == {53, CONTROLLER, ADMIN, 443}
    assert found["stranger"] == {53}


@pytest.mark.requirement("OP-01")
def test_new_quorum_has_a_policy_and_an_earlier_quorum_only_by_choice() -> None:
    new, old = IDENTITY, replace(IDENTITY, network_policy=False)
    assert network_policy.is_wanted(spec(), (new,)) is True
    assert network_policy.is_wanted(spec(), (old,)) is False
    assert network_policy.is_wanted(spec(), (old, replace(new, index=2))) is True
    assert network_policy.is_wanted(spec(), ()) is None, "an existing quorum lost access"
    assert network_policy.is_wanted(spec(mode="Enabled"), (old,)) is True
    assert network_policy.is_wanted(spec(mode="Disabled"), (new,)) is False
    assert network_policy.is_wanted(spec(adminFrom=[ELSEWHERE]), (old,)) is False


def test_fields_that_the_api_server_drops_are_not_written() -> None:
    """An empty list inside of a selector would be reported as drift permanently; an empty selector means all."""
    everyone = {"podSelector": {"matchLabels": {}, "matchExpressions": []}}
    expression = {"key": "a", "operator": "Exists", "values": []}
    one = {"namespaceSelector": {"matchExpressions": [expression]}}
    built = network_policy.build(OWNER, spec(adminFrom=[everyone, one]))
    *_, first, second = built["spec"]["ingress"][1]["from"]
    assert first == {"podSelector": {}}
    kept = {"key": "a", "operator": "Exists"}
    assert second == {"namespaceSelector": {"matchExpressions": [kept]}}


def test_network_policy_outdates_no_pod() -> None:
    """Neither the identity's setting nor the spec's is part of a template: no pod restarts for it."""
    old = replace(IDENTITY, network_policy=False)
    hashes = {
        stateful_set.hashes(OWNER, requested, stateful_set.Member(1, 1, identity))
        for identity in (old, IDENTITY)
        for requested in (spec(), spec(mode="Enabled", adminFrom=[ELSEWHERE]))
    }
    assert len(hashes) == 1
