"""Who reaches a member by its network policy, and whom a member reaches: the whole matrix of pods and ports."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import network_policy, stateful_set, tls
from quorum_operator.desired.names import Owner
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import TlsStage
from support.packet_filter import Pod
from support.reachability import (
    ADMIN,
    ADMIN_AT,
    BY_DEFAULT,
    CONTROLLER,
    DNS,
    EVERYTHING,
    OPERATOR_SPACE,
    SECURE_ADMIN,
    around,
    by_default,
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


def matrix(stage: TlsStage = TlsStage.PLAIN, **requested: Any) -> dict[str, set[int]]:
    return reaches([network_policy.build(OWNER, spec(**requested), stage)], "space", pods())


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("stage", TlsStage)
def test_default_policy_admits_members_the_operator_and_labelled_pods(stage: TlsStage) -> None:
    assert matrix(stage) == by_default(stage)


@pytest.mark.parametrize(
    ("requested", "peer", "ports"),
    [
        ({"adminFrom": [{"podSelector": {"matchLabels": {"app": "web"}}}]}, "stranger", ADMIN_AT),
        ({"metricsFrom": [SCRAPER]}, "scraper", {each: {ADMIN} for each in TlsStage}),
        ({"controllerFrom": [ELSEWHERE]}, "stranger elsewhere", {each: {CONTROLLER} for each in TlsStage}),
    ],
    ids=["admin", "metrics", "controller"],
)  # fmt: skip
@pytest.mark.parametrize("stage", TlsStage)
def test_each_list_admits_to_the_ports_of_the_stage_only(
    stage: TlsStage, requested: dict[str, Any], peer: str, ports: dict[TlsStage, set[int]]
) -> None:
    assert matrix(stage, **requested)[peer] == ports[stage]


def served_at(stage: TlsStage) -> set[int]:
    """The ports of a member's pod."""
    identity = replace(IDENTITY, tls=stage is TlsStage.CLOSED, migration=stage)
    template = stateful_set.build_template(OWNER, spec(), stateful_set.Member(1, 1, identity))
    (container,) = template["spec"]["containers"]
    return {each["containerPort"] for each in container["ports"]}


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize(
    ("before", "stage"),
    [
        (TlsStage.PLAIN, TlsStage.ACCEPTING),
        (TlsStage.ACCEPTING, TlsStage.DIALLING),
        (TlsStage.DIALLING, TlsStage.CLOSED),
        (TlsStage.DIALLING, TlsStage.ACCEPTING),
        (TlsStage.ACCEPTING, TlsStage.PLAIN),
    ],
)
def test_operator_and_brokers_reach_members_of_both_stages_during_a_change(
    before: TlsStage, stage: TlsStage
) -> None:
    """The policy is that of the recorded stage, while members are restarted one by one."""
    identity = replace(IDENTITY, tls=stage is TlsStage.CLOSED, migration=stage)
    admin = SECURE_ADMIN if tls.takes_tls_everywhere(spec(), (identity,)) else ADMIN
    found = matrix(stage)
    for served in (served_at(before), served_at(stage)):
        assert admin in found["operator"] & found["member 2"] & served
        assert CONTROLLER in found["broker"] & found["client"] & found["member 2"] & served


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


@pytest.mark.parametrize("stage", TlsStage)
def test_member_egress_is_limited_to_members_and_dns(stage: TlsStage) -> None:
    found = reached([network_policy.build(OWNER, spec(), stage)], "space", pods())
    assert {name: ports for name, ports in found.items() if ports - DNS} == {
        "member 2": {CONTROLLER, *ADMIN_AT[stage]}
    }
    assert {name for name, ports in found.items() if not ports >= DNS} == {"member 2"}


def test_egress_to_external_voters_is_opened_by_name() -> None:
    requested = spec(egressTo=[{"ipBlock": {"cidr": "203.0.113.9/32"}}])
    found = reached([network_policy.build(OWNER, requested)], "space", pods())
    assert found["outside"] == {*DNS, CONTROLLER, ADMIN, SECURE_ADMIN, 443}
    assert found["stranger"] == DNS


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
