"""The CronJob and the founder of a restored quorum, as they are made."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_node.archiver.main import _parser
from quorum_node.security.certificate_identity import Role
from quorum_operator.backup_crd import BackupSpec, RestoreFromSpec
from quorum_operator.certificates.members import others_of
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import backup, network_policy, stateful_set
from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_NAME, Owner
from quorum_operator.desired.stateful_set import Member
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import TlsStage

OWNER = Owner("demo", "space", "uid-1")
ASKED = BackupSpec(schedule="@daily", claim_name="backups", keep=3)
SPEC = MetadataQuorumSpec(backup=ASKED)
RESTORE = MetadataQuorumSpec(
    cluster_id="c", restore_from=RestoreFromSpec(claim_name="backups", path="demo")
)
IDENTITY = Identity(1, "c", 1, "founder-uuid", 1, formed=False)
FOUNDER = Member(1, 1, IDENTITY, founder=True)


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["jobTemplate"]["spec"]["template"]
    return found


@pytest.mark.requirement("OP-10")
def test_what_the_job_is_told_is_what_the_program_takes() -> None:
    (container,) = pod_of(backup.build(OWNER, SPEC, ASKED, secured=True))["spec"]["containers"]
    assert container["command"] == ["quorum-backup"]
    parsed = _parser().parse_args(container["args"])
    assert str(parsed.target) == "/backup/demo"
    assert parsed.keep == 3
    assert "demo-bootstrap.space.svc:9093" in parsed.bootstrap
    assert str(parsed.tls) == "/etc/metadataquorum-tls"
    plain = pod_of(backup.build(OWNER, SPEC, ASKED, secured=False))["spec"]
    assert "--tls" not in plain["containers"][0]["args"]
    assert [each["name"] for each in plain["volumes"]] == ["backup"]


@pytest.mark.requirement("OP-10")
def test_its_pods_are_clients_and_no_members() -> None:
    """Else a Service would send writes to them, and a disruption budget count them."""
    made = backup.build(OWNER, SPEC, ASKED, secured=True)
    labels = pod_of(made)["metadata"]["labels"]
    assert labels.keys().isdisjoint({LABEL_NAME, LABEL_INSTANCE})
    policy = network_policy.build(OWNER, SPEC, TlsStage.CLOSED)["spec"]
    controller = next(each for each in policy["ingress"] if each["ports"][0]["port"] == 9093)
    selectors = [each["podSelector"] for each in controller["from"] if "podSelector" in each]
    assert any(_selects(each, labels) for each in selectors)
    assert not _selects(policy["podSelector"], labels)
    security = pod_of(made)["spec"]
    assert security["automountServiceAccountToken"] is False
    assert security["securityContext"]["runAsNonRoot"] is True
    assert security["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ())
    )


def test_an_archiver_has_a_certificate_where_backups_are_asked_for() -> None:
    assert [(each.name, each.role) for each in others_of(SPEC)] == [
        ("admin", Role.ADMIN),
        ("backup", Role.ARCHIVER),
    ]
    assert len(others_of(MetadataQuorumSpec())) == 1
    (volume,) = pod_of(backup.build(OWNER, SPEC, ASKED, secured=True))["spec"]["volumes"][1:]
    assert volume["secret"]["secretName"] == "demo-backup-tls"


@pytest.mark.requirement("OP-10")
def test_only_the_founder_restores_and_only_until_the_quorum_is_formed() -> None:
    def parts(member: Member, spec: MetadataQuorumSpec = RESTORE) -> tuple[list[str], set[str]]:
        pod = stateful_set.build(OWNER, spec, member)["spec"]["template"]["spec"]
        return pod["containers"][0]["args"], {each["name"] for each in pod["volumes"]}

    arguments, volumes = parts(FOUNDER)
    at = arguments.index("--restore-from")
    assert arguments[at + 1] == "/var/lib/metadataquorum-restore/demo"
    assert "restore" in volumes
    for member in (
        Member(2, 1, IDENTITY),
        replace(FOUNDER, identity=replace(IDENTITY, formed=True)),
    ):
        arguments, volumes = parts(member)
        assert "--restore-from" not in arguments
        assert "restore" not in volumes
    assert "--restore-from" not in parts(FOUNDER, MetadataQuorumSpec())[0]
    new = RESTORE.model_copy(
        update={"restore_from": RestoreFromSpec(claim_name="b", cluster_id="o")}
    )
    arguments, _ = parts(FOUNDER, new)
    assert arguments[arguments.index("--restore-from") + 1] == "/var/lib/metadataquorum-restore"
    assert arguments[arguments.index("--restore-cluster-id") + 1] == "o"


@pytest.mark.requirement("OP-10")
def test_withdrawing_it_changes_the_template_and_restarts_nobody() -> None:
    formed = replace(FOUNDER, identity=replace(IDENTITY, formed=True))
    before, after = (stateful_set.hashes(OWNER, RESTORE, each) for each in (FOUNDER, formed))
    assert before.template_hash != after.template_hash
    assert before.restart_hash == after.restart_hash
