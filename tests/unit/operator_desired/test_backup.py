"""The CronJob and the founder of a restored quorum, as they are made."""

import re
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.archiver.main import NOT_PRUNED, _parser
from quorum_node.security.certificate_identity import Role
from quorum_node.server.process.main import _parser as node_parser
from quorum_operator.backup_crd import BackupSpec, RestoreFromSpec
from quorum_operator.certificates.members import others_of
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import backup, network_policy, stateful_set
from quorum_operator.desired.formation_defaults import REQUESTS
from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_NAME, Owner
from quorum_operator.desired.stateful_set import Member
from quorum_operator.kube.pod_template import with_template
from quorum_operator.object_store_crd import ENDPOINT, ObjectStoreSpec
from quorum_operator.planner.formation_defaults import FormationDefault
from quorum_operator.planner.observed import Identity, PodFacts
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.pod_template_crd import PodTemplateSpec

OWNER = Owner("demo", "space", "uid-1")
BACKUP = BackupSpec(schedule="@daily", claim_name="backups", keep=3)
SPEC = MetadataQuorumSpec(backup=BACKUP)
RESTORE = MetadataQuorumSpec(
    cluster_id="c", restore_from=RestoreFromSpec(claim_name="backups", path="demo")
)
IDENTITY = Identity(1, "c", 1, "founder-uuid", 1, formed=False)
FOUNDER = Member(1, 1, IDENTITY, founder=True)


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["jobTemplate"]["spec"]["template"]
    return found


@pytest.mark.requirement("OP-10")
def test_job_arguments_are_accepted_by_the_backup_program() -> None:
    (container,) = pod_of(backup.build(OWNER, SPEC, BACKUP, secured=True))["spec"]["containers"]
    assert container["command"] == ["quorum-backup"]
    parsed = _parser().parse_args(container["args"])
    assert str(parsed.target) == "/backup/demo"
    assert parsed.keep == 3
    assert "demo-bootstrap.space.svc:9093" in parsed.bootstrap
    assert str(parsed.tls) == "/etc/metadataquorum-tls"
    plain = pod_of(backup.build(OWNER, SPEC, BACKUP, secured=False))["spec"]
    assert "--tls" not in plain["containers"][0]["args"]
    assert [each["name"] for each in plain["volumes"]] == ["backup"]


def resources_of(taken: BackupSpec, *defaults: FormationDefault) -> object:
    made = backup.build(OWNER, SPEC, taken, secured=True, defaults=frozenset(defaults))
    (container,) = pod_of(made)["spec"]["containers"]
    return container.get("resources")


def test_backup_requests_resources_as_a_quota_may_demand() -> None:
    """Those of quorums that were formed by an earlier version stay the same."""
    limits = {"limits": {"memory": "1Gi"}}
    given = BACKUP.model_copy(update={"resources": limits})
    assert resources_of(BACKUP) is None
    assert resources_of(BACKUP, FormationDefault.RESOURCES) == REQUESTS
    assert resources_of(given, FormationDefault.RESOURCES) == limits
    nothing = BACKUP.model_copy(update={"resources": {}})
    assert resources_of(nothing, FormationDefault.RESOURCES) == {}


@pytest.mark.requirement("OP-10")
def test_backup_pods_have_client_labels_and_no_member_labels() -> None:
    """Else a Service would send writes to them, and a disruption budget count them."""
    made = backup.build(OWNER, SPEC, BACKUP, secured=True)
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


def test_job_does_not_try_again_after_a_complete_backup() -> None:
    """Older ones could not be deleted, and each attempt would add one more."""
    job = backup.build(OWNER, SPEC, BACKUP, secured=True)["spec"]["jobTemplate"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    (container,) = job["template"]["spec"]["containers"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == [NOT_PRUNED]
    assert rule["onExitCodes"]["containerName"] == container["name"]


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ())
    )


def test_archiver_has_a_certificate_when_backups_are_configured() -> None:
    assert [(each.name, each.role) for each in others_of(SPEC)] == [
        ("admin", Role.ADMIN),
        ("backup", Role.ARCHIVER),
    ]
    assert len(others_of(MetadataQuorumSpec())) == 1
    (volume,) = pod_of(backup.build(OWNER, SPEC, BACKUP, secured=True))["spec"]["volumes"][1:]
    assert volume["secret"]["secretName"] == "demo-backup-tls"


@pytest.mark.requirement("OP-10")
def test_only_the_founder_restores_and_only_until_formation() -> None:
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
def test_removing_the_restore_setting_changes_the_template_and_restarts_no_pod() -> None:
    formed = replace(FOUNDER, identity=replace(IDENTITY, formed=True))
    before, after = (stateful_set.hashes(OWNER, RESTORE, each) for each in (FOUNDER, formed))
    assert before.template_hash != after.template_hash
    assert before.restart_hash == after.restart_hash


STORE = ObjectStoreSpec(
    bucket="bucket",
    prefix="a/b/",
    endpoint="https://store.example:9000",
    region="eu-1",
    path_style=False,
    credentials_secret_name="credentials",
    ca_secret_name="authority",
)
STORED = BackupSpec(schedule="@daily", object_store=STORE)


def credentials_of(container: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Variable, and the Secret and key that it refers to."""
    found = {}
    for each in container["env"]:
        if "valueFrom" in each:
            assert each.keys() == {"name", "valueFrom"}, "no value"
            reported = each["valueFrom"]["secretKeyRef"]
            found[each["name"]] = (reported["name"], reported["key"])
    return found


@pytest.mark.requirement("OP-10")
def test_object_store_job_has_the_address_and_references_to_credentials() -> None:
    pod = pod_of(backup.build(OWNER, SPEC, STORED, secured=True))["spec"]
    (container,) = pod["containers"]
    parsed = _parser().parse_args(container["args"])
    assert str(parsed.target) == "s3://bucket/a/b/demo"
    assert (parsed.endpoint, parsed.region) == ("https://store.example:9000", "eu-1")
    assert parsed.path_style is False
    assert set(credentials_of(container).values()) == {
        ("credentials", "AWS_ACCESS_KEY_ID"),
        ("credentials", "AWS_SECRET_ACCESS_KEY"),
        ("credentials", "AWS_SESSION_TOKEN"),
    }
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert volumes.keys() == mounts.keys() == {"scratch", "store-ca", "tls"}
    assert str(parsed.scratch) == mounts["scratch"], "the root is read-only"
    bundle = next(each["value"] for each in container["env"] if each["name"] == "AWS_CA_BUNDLE")
    assert bundle == f"{mounts['store-ca']}/ca.crt"
    assert volumes["store-ca"]["secret"]["secretName"] == "authority"
    least = STORED.model_copy(
        update={"object_store": ObjectStoreSpec(bucket="bucket", credentials_secret_name="c")}
    )
    pod = pod_of(backup.build(OWNER, SPEC, least, secured=False))["spec"]
    parsed = _parser().parse_args(pod["containers"][0]["args"])
    assert (str(parsed.target), parsed.endpoint, parsed.path_style) == (
        "s3://bucket/demo",
        None,
        None,
    )
    assert [each["name"] for each in pod["volumes"]] == ["scratch"]


def test_variables_of_the_container_are_not_inserted_into_paths() -> None:
    """Kubernetes replaces $(NAME) in arguments, and $$ by $: a prefix could show the keys of the store in logs."""
    prefix = "a/$(AWS_SECRET_ACCESS_KEY)/$$b"
    written = "a/$$(AWS_SECRET_ACCESS_KEY)/$$$$b"
    store = STORE.model_copy(update={"prefix": prefix})
    stored = STORED.model_copy(update={"object_store": store})
    (job,) = pod_of(backup.build(OWNER, SPEC, stored, secured=True))["spec"]["containers"]
    assert f"s3://bucket/{written}/demo" in job["args"]
    for source, found in (
        (RestoreFromSpec(object_store=store), f"s3://bucket/{written}"),
        (
            RestoreFromSpec(claim_name="backups", path=prefix),
            f"/var/lib/metadataquorum-restore/{written}",
        ),
    ):
        spec = MetadataQuorumSpec(cluster_id="c", restore_from=source)
        pod = stateful_set.build(OWNER, spec, FOUNDER)["spec"]["template"]["spec"]
        assert found in pod["containers"][0]["args"]


def restoring(**more: Any) -> MetadataQuorumSpec:
    source = RestoreFromSpec(object_store=STORE)
    return MetadataQuorumSpec(cluster_id="c", restore_from=source, **more)


@pytest.mark.requirement("OP-10")
def test_only_the_founder_gets_object_store_settings_and_only_until_formation() -> None:
    own = {"AWS_ACCESS_KEY_ID": "somebody", "OTHER": "x"}
    template = PodTemplateSpec.model_validate(
        {"env": [{"name": name, "value": value} for name, value in own.items()]}
    )
    spec = restoring(pod_template=template)
    pod = stateful_set.build(OWNER, spec, FOUNDER)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parsed = node_parser().parse_args(container["args"])
    assert parsed.restore_from == "s3://bucket/a/b"
    assert (parsed.restore_endpoint, parsed.restore_region) == (STORE.endpoint, "eu-1")
    assert parsed.restore_path_style == "false"
    names = [each["name"] for each in container["env"]]
    assert len(names) == len(set(names)), "the API server refuses a name twice"
    assert credentials_of(container)["AWS_ACCESS_KEY_ID"] == ("credentials", "AWS_ACCESS_KEY_ID")
    assert {"store-ca"} == {each["name"] for each in pod["volumes"]} & {"store-ca", "restore"}

    formed = replace(FOUNDER, identity=replace(IDENTITY, formed=True))
    for member in (formed, Member(2, 1, IDENTITY)):
        pod = stateful_set.build(OWNER, spec, member)["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert {each["name"]: each["value"] for each in container["env"]} == own
        assert "s3://" not in " ".join(container["args"])
        assert "store-ca" not in {each["name"] for each in pod["volumes"]}
    hashes = [stateful_set.hashes(OWNER, spec, each) for each in (FOUNDER, formed)]
    assert hashes[0].restart_hash == hashes[1].restart_hash


@pytest.mark.requirement("OP-10")
def test_running_founder_is_not_outdated_after_its_credentials_are_removed() -> None:
    spec = restoring()
    before, after = (
        stateful_set.build(OWNER, spec, member)
        for member in (FOUNDER, replace(FOUNDER, identity=replace(IDENTITY, formed=True)))
    )

    def seen(template: dict[str, Any]) -> PodFacts:
        labels = {"controller-revision-hash": "old"}
        pod = {"metadata": {"labels": labels}, "spec": before["spec"]["template"]["spec"]}
        owned = {
            "metadata": {"generation": 2},
            "status": {"updateRevision": "new", "observedGeneration": 2},
            "spec": {"template": template},
        }
        return with_template(PodFacts(name="demo-1-1-0", uid="uid", created_at=0.0), pod, owned)

    assert not seen(after["spec"]["template"]).outdated
    other = stateful_set.build(
        OWNER,
        restoring(
            pod_template=PodTemplateSpec.model_validate({"env": [{"name": "A", "value": "b"}]})
        ),
        replace(FOUNDER, identity=replace(IDENTITY, formed=True)),
    )
    assert seen(other["spec"]["template"]).outdated


@pytest.mark.requirement("OP-10")
def test_network_policy_lets_the_founder_reach_the_store_during_the_restore() -> None:
    def ports(spec: MetadataQuorumSpec, *, formed: bool) -> list[Any]:
        built = network_policy.build(OWNER, spec, formed=formed)["spec"]["egress"]
        return [each["ports"] for each in built if "to" not in each and "ports" in each][1:]

    assert ports(restoring(), formed=False) == [[{"protocol": "TCP", "port": 9000}]]
    assert ports(restoring(), formed=True) == []
    assert ports(RESTORE, formed=False) == []


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        (None, 443),
        ("http://s", 80),
        ("https://s/", 443),
        ("http://s:9000/", 9000),
        ("https://[::1]:8443", 8443),
    ],
)
def test_object_store_port_is_that_of_its_url(endpoint: str | None, port: int) -> None:
    assert STORE.model_copy(update={"endpoint": endpoint}).port == port


@pytest.mark.parametrize(
    ("endpoint", "accepted"),
    [
        ("https://s3.example.com", True),
        ("http://minio_1:9000/", True),
        ("http://10.0.0.1:65535", True),
        ("https://[fd00::1]:8443", True),
        ("https://s:65536", False),
        ("https://s:70000", False),
        ("https://s:0", False),
        ("https://s:", False),
        ("https://s:9000x", False),
        ("https://s s", False),
        ("https://s/path", False),
        ("https://user@s", False),
        ("https://", False),
        ("ftp://s", False),
    ],
)
def test_object_store_endpoint_is_a_url_with_a_possible_port(endpoint: str, accepted: bool) -> None:
    """The definition has this pattern; tests/envtest shows that the API server uses it."""
    pattern = ENDPOINT.replace("[[]", r"\[")  # Python warns of a class that begins like a set.
    assert (re.fullmatch(pattern, endpoint) is not None) == accepted
    rules = ObjectStoreSpec.model_json_schema()["x-kubernetes-validations"]
    assert any(f"self.endpoint.matches('{ENDPOINT}')" in rule["rule"] for rule in rules)
