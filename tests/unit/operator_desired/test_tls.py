"""What certificates change in the objects of a quorum, and that nothing changes without them."""

import pytest

from quorum_node.configuration.keys import security
from quorum_node.configuration.listener_config import Migration
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, config, network_policy, stateful_set, tls
from quorum_operator.desired.names import Owner
from quorum_operator.kube import facts
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import (
    MIGRATION,
    MIGRATION_VALUES,
    TlsStage,
    first_stage,
    stage_left,
    stage_of_process,
)
from quorum_operator.tls_crd import TlsMode

OWNER = Owner("demo", "space", "uid", "operators")
EARLIER_RESTART_HASH = "15c530d1bf4d2cf9"
"""Of the version before certificates, for `spec()`: another one would restart every member of every quorum."""


def spec(**parts: object) -> MetadataQuorumSpec:
    return MetadataQuorumSpec.model_validate({"image": "node:1", **parts})


def identity(*, on: bool, index: int = 1) -> Identity:
    return Identity(index, "c1", 1, "U1", 3, formed=True, tls=on)


def container(*, on: bool) -> dict[str, object]:
    member = stateful_set.Member(2, 1, identity(on=on))
    found: dict[str, object] = stateful_set.build_template(OWNER, spec(), member)["spec"]
    return found


def test_operator_upgrade_restarts_no_quorum_without_certificates() -> None:
    member = stateful_set.Member(2, 1, identity(on=False))
    assert stateful_set.hashes(OWNER, spec(), member).restart_hash == EARLIER_RESTART_HASH
    assert "ssl" not in str(container(on=False))
    assert "8443" not in str(base_objects.build_all(OWNER, spec()))


def test_member_with_certificates_mounts_its_own_secret_and_its_probe_needs_none() -> None:
    (node,) = container(on=True)["containers"]  # type: ignore[misc, attr-defined]
    volumes = {each["name"]: each for each in container(on=True)["volumes"]}  # type: ignore[attr-defined]
    assert volumes["tls"]["secret"]["secretName"] == "demo-2-1-tls"
    assert "items" not in volumes["tls"]["secret"], "a missing key blocks the pod"
    (mount,) = [each for each in node["volumeMounts"] if each["name"] == "tls"]
    assert mount == {"name": "tls", "mountPath": "/etc/metadataquorum-tls", "readOnly": True}
    ports = {each["name"]: each["containerPort"] for each in node["ports"]}
    assert ports == {"controller": 9093, "admin": 8443, "health": 8080}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert node[probe]["httpGet"]["port"] == "health"
    assert "admin.listener=https://0.0.0.0:8443" in node["args"]


def test_spec_cannot_override_properties_of_members() -> None:
    requested = {"ssl.truststore.location": "/tmp/mine", "listener.security.protocol.map": "x"}
    found = config.properties(OWNER, requested, secured=True)
    assert found["ssl.truststore.location"] == "/etc/metadataquorum-tls/ca.crt"
    assert found["listener.security.protocol.map"] == "CONTROLLER:SSL"
    assert found["authorizer.class.name"].endswith(".StandardAuthorizer")
    assert "authorizer.class.name" not in config.properties(OWNER, {}, secured=False)


def test_policy_opens_the_metrics_port_only_to_its_peers() -> None:
    def ports(**requested: object) -> list[tuple[int, int]]:
        built = network_policy.build(OWNER, spec(networkPolicy=requested), stage=TlsStage.CLOSED)
        return [
            (rule["ports"][0]["port"], len(rule.get("from", ())))
            for rule in built["spec"]["ingress"]
        ]

    scraper = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    assert ports() == [(9093, 2), (8443, 2)]
    assert ports(metricsFrom=[scraper]) == [(9093, 2), (8443, 2), (8080, 1)]


@pytest.mark.parametrize("requested", [None, "Managed", "Disabled"])
@pytest.mark.parametrize("formed", [False, True])
def test_settings_recorded_at_formation_take_precedence(
    formed: bool, requested: str | None
) -> None:
    wanted = spec() if requested is None else spec(tls={"mode": requested})
    found = (identity(on=not formed), identity(on=formed, index=2))
    stage = TlsStage.CLOSED if formed else TlsStage.PLAIN
    assert tls.stage_of(wanted, found) is stage
    reported = tls.contradiction(wanted, found)
    assert (reported is not None) is (formed and requested == "Disabled")


def test_new_quorum_uses_the_tls_settings_of_the_spec() -> None:
    assert tls.stage_of(spec(), ()) is TlsStage.CLOSED
    assert tls.stage_of(spec(tls={"mode": "Disabled"}), ()) is TlsStage.PLAIN
    assert tls.stage_of(spec(tls={"identities": []}), ()) is TlsStage.CLOSED


@pytest.mark.parametrize("requested", [None, *TlsMode])
def test_planner_and_objects_use_the_same_rule_for_a_quorum_without_identity(
    requested: TlsMode | None,
) -> None:
    """On its way to TLS there is nothing yet that could migrate."""
    wanted = spec() if requested is None else spec(tls={"mode": requested})
    assert tls.stage_of(wanted, ()) is first_stage(requested)
    assert (first_stage(requested) is TlsStage.PLAIN) == (requested is TlsMode.DISABLED)


def test_earlier_quorum_stays_without_certificates() -> None:
    """Neither an upgrade of the operator nor the default changes what it was formed with."""
    formed = identity(on=False)
    assert tls.stage_of(spec(), (formed,)) is TlsStage.PLAIN
    assert tls.contradiction(spec(), (formed,)) is None


def at(stage: TlsStage, node_id: int = 2) -> stateful_set.Member:
    return stateful_set.Member(
        node_id, 1, Identity(1, "c1", 1, "U1", 3, formed=True, migration=stage)
    )


def arguments(stage: TlsStage) -> dict[str, str]:
    pod = stateful_set.build_template(OWNER, spec(), at(stage))["spec"]
    return facts.overrides_in(pod)


def test_migration_values_of_operator_and_node_agree() -> None:
    assert security.MIGRATION.name == MIGRATION
    assert {*MIGRATION_VALUES.values(), "none"} == {each.value for each in Migration}


@pytest.mark.parametrize("stage", list(TlsStage))
def test_pod_arguments_contain_its_migration_stage_and_all_settings_it_needs(
    stage: TlsStage,
) -> None:
    """Objects that all members share may be of the stage before or after, because a container may start again at any time."""
    reported = arguments(stage)
    assert stage_of_process(reported) is stage
    assert ("ssl.keystore.location" in reported) is (stage is not TlsStage.PLAIN)
    assert ("authorizer.class.name" in reported) is (stage is TlsStage.CLOSED)
    assert reported["listeners"] == "CONTROLLER://0.0.0.0:9093", (
        "the address of brokers has changed"
    )


def test_every_stage_restarts_the_members_and_two_stages_change_the_config() -> None:
    found = [stateful_set.hashes(OWNER, spec(), at(each)) for each in TlsStage]
    assert len({each.restart_hash for each in found}) == len(found)
    configs = [base_objects.build_all(OWNER, spec(), each)[0]["data"] for each in TlsStage]
    assert configs[0] == configs[1] == configs[2] != configs[3]


def test_service_and_policy_have_both_admin_ports_while_members_accept_both_protocols() -> None:
    built = {
        each["metadata"]["name"]: each
        for each in base_objects.build_all(OWNER, spec(), TlsStage.DIALLING)
    }
    going = (Identity(1, "c1", 1, "U1", 3, formed=True, migration=TlsStage.DIALLING),)
    assert tls.takes_tls_everywhere(spec(), going), "a backup in clear text would keep them open"
    ports = {each["name"]: each["port"] for each in built["demo-admin"]["spec"]["ports"]}
    assert ports == {"admin": 8080, "admin-tls": 8443}
    targets = [each["targetPort"] for each in built["demo-admin"]["spec"]["ports"]]
    assert targets == [8080, 8443], "pods of other stages call other ports by the same name"
    policy = built["demo-members"]["spec"]
    opened = [each["port"] for rule in policy["ingress"] for each in rule["ports"]]
    assert opened == [9093, 8080, 8443]
    assert [each["port"] for each in policy["egress"][1]["ports"]] == [9093, 8080, 8443]


def test_service_port_reaches_a_migrating_pod_in_both_stages() -> None:
    """Port names that a Service goes by: pods that take both and pods that take TLS alone."""
    for stage in (TlsStage.DIALLING, TlsStage.CLOSED):
        (node,) = stateful_set.build_template(OWNER, spec(), at(stage))["spec"]["containers"]
        ports = {each["name"]: each["containerPort"] for each in node["ports"]}
        assert (ports["admin"], ports["health"]) == (8443, 8080)


@pytest.mark.parametrize(
    ("left", "continues_at"),
    [
        ((), TlsStage.PLAIN),
        ((TlsStage.PLAIN, TlsStage.ACCEPTING), TlsStage.ACCEPTING),
        ((TlsStage.ACCEPTING, TlsStage.DIALLING), TlsStage.ACCEPTING),
        ((TlsStage.DIALLING, TlsStage.DIALLING), TlsStage.DIALLING),
        ((TlsStage.DIALLING, TlsStage.CLOSED), TlsStage.CLOSED),
    ],
)
def test_stage_is_inferred_from_members_when_the_identity_is_missing(
    left: tuple[TlsStage, ...], continues_at: TlsStage
) -> None:
    assert stage_left(left) is continues_at
