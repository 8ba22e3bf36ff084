"""The pipeline in the chart: disabled by default; a Deployment or a CronJob; executors as pods with few rights."""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from quorum_operator.desired import names
from quorum_pipeline.commands import archive
from quorum_pipeline.spark.encryption import encryption_of
from support import chart
from support.chart import Json
from support.yaml_text import read_yaml

NAME = f"{chart.RELEASE}-pipeline"
BOOTSTRAP = "demo-bootstrap.default.svc:9093"
ENABLED = ("pipeline.enabled=true", f"pipeline.bootstrap={BOOTSTRAP}")
ON_KUBERNETES = (*ENABLED, "pipeline.master=k8s://https://kubernetes.default.svc")


def added(helm: Path, *settings: str) -> list[Json]:
    """What a release has with these settings and not without any."""
    without = chart.by_key(chart.render(helm))
    return [each for each in chart.render(helm, *settings) if chart.key(each) not in without]


def pod_of(documents: list[Json]) -> Json:
    """The driver's pod, of any kind of owner."""
    (found,) = chart.of_kind(documents, "Deployment", "CronJob")
    spec = found["spec"] if found["kind"] == "Deployment" else found["spec"]["jobTemplate"]["spec"]
    template: Json = spec["template"]
    return template


def driver(documents: list[Json]) -> Json:
    (only,) = pod_of(documents)["spec"]["containers"]
    found: Json = only
    return found


def settings_of(documents: list[Json]) -> dict[str, str]:
    """What Spark reads from the file."""
    text = chart.the(documents, "ConfigMap")["data"]["spark-defaults.conf"]
    return dict(line.split(" ", 1) for line in text.splitlines())


def executor_of(documents: list[Json]) -> Json:
    found: Json = read_yaml(chart.the(documents, "ConfigMap")["data"]["executor.yaml"])
    return found


def test_release_has_no_pipeline_unless_enabled(helm: Path) -> None:
    assert added(helm, f"pipeline.bootstrap={BOOTSTRAP}") == []


def test_helm_lint_reports_nothing_with_the_pipeline_enabled(helm: Path) -> None:
    command = ["lint", "--strict", str(chart.CHART)]
    for setting in ON_KUBERNETES:
        command += ["--set", setting]
    done = chart.run_helm(helm, *command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_default_pipeline_is_one_pod_without_rights(helm: Path) -> None:
    found = added(helm, *ENABLED)
    kinds = sorted(each["kind"] for each in found)
    assert kinds == ["ConfigMap", "Deployment", "PersistentVolumeClaim", "ServiceAccount"]
    assert {each["metadata"]["name"] for each in found} == {NAME}
    assert settings_of(found)["spark.master"] == "local[*]"
    assert pod_of(found)["spec"]["automountServiceAccountToken"] is False
    assert chart.the(found, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("schedule", ["", "0 * * * *"])
def test_command_is_accepted_by_the_pipeline(helm: Path, schedule: str) -> None:
    found = added(
        helm,
        *ENABLED,
        f"pipeline.schedule={schedule}",
        "pipeline.to=hdfs://name:8020/archive",
        "pipeline.everySeconds=2",
        "pipeline.extraArgs={--compact,--max-rows=1000}",
    )
    command, *arguments = driver(found)["args"]
    assert command == "archive"
    parser = ArgumentParser()
    archive.add_arguments(parser)
    taken = parser.parse_args(arguments)
    assert (taken.bootstrap, taken.to) == (BOOTSTRAP, "hdfs://name:8020/archive")
    assert (taken.follow, taken.every) == ((False, 5.0) if schedule else (True, 2.0))
    assert (taken.compact, taken.max_rows) == (True, 1000)
    assert chart.of_kind(found, "PersistentVolumeClaim") == []


@pytest.mark.parametrize("config", ["", "client.properties"])
def test_driver_and_executors_mount_the_named_certificate(helm: Path, config: str) -> None:
    settings = ("pipeline.tls.secret=demo-history-tls", f"pipeline.tls.commandConfig={config}")
    found = added(helm, *ON_KUBERNETES, *settings)
    parser = ArgumentParser()
    archive.add_arguments(parser)
    taken = parser.parse_args(driver(found)["args"][1:])
    folder = "/etc/metadataquorum-tls"
    assert (taken.tls, taken.command_config) == (
        (None, f"{folder}/{config}") if config else (folder, None)
    )
    for pod in (pod_of(found)["spec"], executor_of(found)["spec"]):
        (container,) = pod["containers"]
        assert {"name": "tls", "mountPath": folder, "readOnly": True} in container["volumeMounts"]
        secret = {"secretName": "demo-history-tls", "defaultMode": 0o440}
        assert {"name": "tls", "secret": secret} in pod["volumes"]


def test_pipeline_without_a_secret_uses_clear_text(helm: Path) -> None:
    found = added(helm, *ON_KUBERNETES)
    assert "--tls" not in driver(found)["args"]
    for pod in (pod_of(found)["spec"], executor_of(found)["spec"]):
        assert "tls" not in {each["name"] for each in pod["volumes"]}
    with pytest.raises(ValueError, match="name the Secret"):
        added(helm, *ON_KUBERNETES, "pipeline.tls.commandConfig=client.properties")


def test_pipeline_reads_from_the_service_of_the_quorum(helm: Path) -> None:
    owner = names.Owner("demo", "default", "u")
    service = f"{owner.bootstrap_service}.{owner.namespace}.svc:{names.CONTROLLER_PORT}"
    assert service in driver(added(helm, *ENABLED))["args"]


def test_schedule_runs_one_job_at_a_time_without_retry_after_quarantine(helm: Path) -> None:
    found = added(helm, *ENABLED, "pipeline.schedule=@hourly")
    spec = chart.the(found, "CronJob")["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("@hourly", "Forbid")
    (rule,) = spec["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == [1]
    assert rule["onExitCodes"]["containerName"] == driver(found)["name"]
    assert pod_of(found)["spec"]["restartPolicy"] == "Never"


def test_driver_role_only_manages_pods_in_its_namespace(helm: Path) -> None:
    found = added(helm, *ON_KUBERNETES)
    role = chart.the(found, "Role")
    assert role["metadata"]["namespace"] == chart.NAMESPACE
    assert {(group, resource) for group, resource, _ in chart.granted([role])} == {("", "pods")}
    assert not [rule for rule in chart.granted([role]) if "*" in rule]
    account = chart.the(found, "ServiceAccount")["metadata"]["name"]
    (subject,) = chart.the(found, "RoleBinding")["subjects"]
    pod = pod_of(found)["spec"]
    assert subject["name"] == pod["serviceAccountName"] == account
    assert pod["automountServiceAccountToken"] is True
    without = added(helm, *ON_KUBERNETES, "rbac.create=false")
    assert chart.of_kind(without, "Role", "RoleBinding") == []


def test_executors_are_as_restricted_as_the_driver_and_have_no_token(helm: Path) -> None:
    found = added(helm, *ON_KUBERNETES, "pipeline.nodeSelector.disk=ssd")
    executor, pod = executor_of(found)["spec"], pod_of(found)["spec"]
    assert executor["automountServiceAccountToken"] is False
    assert executor["securityContext"] == pod["securityContext"]
    assert executor["securityContext"]["runAsNonRoot"] is True
    (container,) = executor["containers"]
    assert container["securityContext"] == driver(found)["securityContext"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert executor["nodeSelector"] == pod["nodeSelector"] == {"disk": "ssd"}


def test_executors_write_to_the_volume_of_the_driver(helm: Path) -> None:
    found = added(helm, *ON_KUBERNETES, "pipeline.volume.existingClaim=mine")
    assert chart.of_kind(found, "PersistentVolumeClaim") == []
    for spec in (executor_of(found)["spec"], pod_of(found)["spec"]):
        (volume,) = (each for each in spec["volumes"] if each["name"] == "archive")
        assert volume["persistentVolumeClaim"] == {"claimName": "mine"}
        mounts = {m["name"]: m["mountPath"] for m in spec["containers"][0]["volumeMounts"]}
        assert mounts["archive"] == "/archive"
    assert "file:///archive" in driver(found)["args"]


def test_deployment_selector_does_not_match_executors(helm: Path) -> None:
    found = added(helm, *ON_KUBERNETES)
    wanted = chart.the(found, "Deployment")["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= pod_of(found)["metadata"]["labels"].items()
    assert not wanted.items() <= executor_of(found)["metadata"]["labels"].items()


def test_spark_gets_its_addresses_and_authentication_secret(helm: Path) -> None:
    found = added(helm, *ON_KUBERNETES, "pipeline.image.tag=x", "pipeline.executors.count=3")
    settings = settings_of(found)
    assert encryption_of(settings["spark.master"]).items() <= settings.items()
    assert settings["spark.executor.instances"] == "3"
    assert settings["spark.kubernetes.container.image"] == driver(found)["image"]
    assert settings["spark.kubernetes.namespace"] == chart.NAMESPACE
    template = Path(settings["spark.kubernetes.executor.podTemplateFile"])
    assert template.name in chart.the(found, "ConfigMap")["data"]
    mounts = [mount["mountPath"] for mount in driver(found)["volumeMounts"]]
    environment = {each["name"]: each for each in driver(found)["env"]}
    assert environment["SPARK_CONF_DIR"]["value"] == str(template.parent)
    assert str(template.parent) in mounts
    for value in settings.values():
        if value.startswith("${env:"):
            assert value[6:-1] in environment


def test_user_setting_overrides_the_default_and_changes_the_pod(helm: Path) -> None:
    before = added(helm, *ON_KUBERNETES)
    after = added(helm, *ON_KUBERNETES, r"pipeline.sparkConf.spark\.ui\.enabled=true")
    assert (settings_of(before) | {"spark.ui.enabled": "true"}) == settings_of(after)
    assert pod_of(before)["metadata"]["annotations"] != pod_of(after)["metadata"]["annotations"]


def test_large_number_in_a_file_of_values_keeps_all_digits(helm: Path, tmp_path: Path) -> None:
    """Helm reads each number of a file as a floating point number; Spark accepts no exponent."""
    values = tmp_path / "values.yaml"
    values.write_text(
        "pipeline:\n  sparkConf:\n    spark.sql.files.maxPartitionBytes: 134217728\n"
        "    spark.memory.fraction: 0.25\n"
    )
    enabled = [part for setting in ENABLED for part in ("--set", setting)]
    command = ["template", "mq", str(chart.CHART), "--kube-version", chart.KUBE_VERSION]
    done = chart.run_helm(helm, *command, "--values", str(values), *enabled)
    settings = settings_of(list(chart.objects(done.stdout)))
    assert settings["spark.sql.files.maxPartitionBytes"] == "134217728"
    assert settings["spark.memory.fraction"] == "0.25"


def test_connections_between_pods_are_authenticated_and_encrypted(helm: Path) -> None:
    settings = settings_of(added(helm, *ON_KUBERNETES))
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.network.crypto.saslFallback"] == "false"
    assert not [key for key in settings if "secret" in key], "Spark generates one for each run"
    switched_off = added(helm, *ON_KUBERNETES, r"pipeline.sparkConf.spark\.authenticate=false")
    assert "spark.network.crypto.enabled" not in settings_of(switched_off), "Spark would not start"
    alone = settings_of(added(helm, *ENABLED))
    assert not [key for key in alone if "crypto" in key or "authenticate" in key]


def test_uninstall_keeps_the_archive(helm: Path) -> None:
    claim = chart.the(added(helm, *ENABLED), "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_network_policy_connects_driver_and_executors(helm: Path) -> None:
    found = chart.render(helm, *ON_KUBERNETES, "networkPolicy.enabled=true")
    policies = chart.by_key(chart.of_kind(found, "NetworkPolicy"))
    policy = policies["NetworkPolicy", chart.NAMESPACE, NAME]["spec"]
    (rule,) = policy["ingress"]
    (peer,) = rule["from"]
    rest = [each for each in found if each["metadata"]["name"] == NAME]
    for pod in (pod_of(rest), executor_of(rest)):
        labels = pod["metadata"]["labels"].items()
        assert policy["podSelector"]["matchLabels"].items() <= labels
        assert peer["podSelector"]["matchLabels"].items() <= labels


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("pipeline.bootstrap=", "pipeline.bootstrap is needed"),
        ("pipeline.bootstrap=demo-bootstrap", "bootstrap"),
        ("pipeline.to=archive", "to"),
        ("pipeline.master=yarn", "master"),
        ("pipeline.schedule=often", "schedule"),
        ("pipeline.everySeconds=0", "everySeconds"),
        ("pipeline.executors.count=0", "count"),
        ("pipeline.driver.memory=1Gi", "memory"),
        ("pipeline.sparkConf.ui=1", "'ui' does not match"),
        ("pipeline.volume.accessModes={ReadOnlyMany}", "accessModes"),
        ("pipeline.serviceAccount.create=false", "pipeline.serviceAccount.name"),
        ("pipeline.typo=1", "typo"),
    ],
)
def test_invalid_pipeline_value_is_rejected_with_its_name(
    helm: Path, setting: str, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        chart.render(helm, *ENABLED, setting)
