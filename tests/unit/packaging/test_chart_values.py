"""Values of the chart that the API server would refuse, that collide, or that would have no effect: one message each.

And `helm upgrade` from an earlier chart: values that it does not have, and fields that can't be changed.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import chart
from support.yaml_text import read_yaml

VALUES: dict[str, Any] = read_yaml((chart.CHART / "values.yaml").read_text())
FREE = (
    "resources",
    "annotations",
    "labels",
    "sparkConf",
    "Annotations",
    "Labels",
    "nodeSelector",
    "affinity",
)
"""Mappings whose keys are the user's."""
PIPELINE = "pipeline.enabled=true,pipeline.bootstrap=q-bootstrap.ns.svc:9093"
TO = r"pipeline.to=s3a://bucket/archive"


def required(values: dict[str, Any], above: str = "") -> set[str]:
    """Every value that has a default which is not empty, and every mapping of such values."""
    found = set()
    for name, value in values.items():
        if name.endswith(FREE):
            continue
        if isinstance(value, dict):
            found |= {above + name} | required(value, f"{above}{name}.")
        elif value or not isinstance(value, str | list):
            found.add(above + name)
    return found


def refusal(helm: Path, *settings: str) -> str:
    with pytest.raises(ValueError) as refused:
        chart.render(helm, *settings)
    return str(refused.value)


def test_every_value_with_a_default_is_required() -> None:
    text = (chart.CHART / "templates" / "_checks.tpl").read_text()
    listed = text.partition('define "mq.required" -}}')[2].partition("{{- end }}")[0].split()
    assert set(listed) == required(VALUES)
    assert len(listed) == len(set(listed))
    for path in listed:
        above = path.rpartition(".")[0]
        assert not above or listed.index(above) < listed.index(path), path


@pytest.mark.parametrize(
    "left_out", ["certManager", "crds.install", "networkPolicy.apiServerPorts"]
)
def test_missing_value_is_named_with_the_option_that_resets_defaults(
    helm: Path, left_out: str
) -> None:
    said = refusal(helm, f"{left_out}=null")
    assert f"the value {left_out} is missing" in said
    assert "--reset-then-reuse-values" in said


def test_defaults_of_the_first_chart_are_refused_with_a_way_out(helm: Path, tmp_path: Path) -> None:
    """`--reuse-values` renders this chart with the defaults of the one before."""
    later = ("certManager", "page", "apiCalls", "pipeline", "volumes", "volumeMounts")
    copy = tmp_path / "chart"
    shutil.copytree(chart.CHART, copy)
    earlier = {name: value for name, value in VALUES.items() if name not in later}
    earlier["metrics"] = {"service": False, "annotations": {}}
    (copy / "values.yaml").write_text(yaml.safe_dump(earlier))
    arguments = ["template", "r", str(copy), "--kube-version", chart.KUBE_VERSION]
    done = chart.run_helm(helm, *arguments)
    assert done.returncode != 0
    assert "is missing. After an earlier version of the chart use" in done.stderr
    assert "nil pointer" not in done.stderr


def test_defaults_without_an_effect_may_be_removed(helm: Path) -> None:
    rendered = chart.render(helm, "resources.limits=null,tolerations=null,podLabels=null,env=null")
    (container,) = chart.the(rendered, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "limits" not in container["resources"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            "page.enabled=true,page.port=8080",
            "page.port: 8080 is the port of the operator's probes",
        ),
        ("env[0].name=WATCH_NAMESPACE,env[0].value=a", "env: WATCH_NAMESPACE is set by the chart"),
        (
            "page.enabled=true,env[0].name=METADATAQUORUM_OPERATOR_PAGE,env[0].value=a:1",
            "env: METADATAQUORUM_OPERATOR_PAGE is set by the chart",
        ),
        ("env[0].name=A,env[0].value=1s,env[1].name=A,env[1].value=2s", "env: A occurs twice"),
        ("volumes[0].name=tmp", "volumes: tmp is set by the chart"),
        ("volumes[0].name=a,volumes[1].name=a", "volumes: a occurs twice"),
        ("volumeMounts[0].name=a,volumeMounts[0].mountPath=/a", "there is no volume a"),
        ("volumeMounts[0].name=tmp,volumeMounts[0].mountPath=/tmp/", "something else is mounted"),
        (r"podLabels.app\.kubernetes\.io/part-of=x", "podLabels: app.kubernetes.io/part-of is"),
        (r"metrics.rules.labels.app\.kubernetes\.io/name=x", "metrics.rules.labels: app"),
        ("metrics.annotations.a=b", "metrics.annotations are those of the Service"),
        (
            "serviceAccount.create=false,serviceAccount.name=x,serviceAccount.annotations.a=b",
            "serviceAccount.annotations have no effect",
        ),
        (f"{PIPELINE},{TO},pipeline.volume.existingClaim=x", "existingClaim has no effect"),
        (f"{PIPELINE},pipeline.to=file:///data", "the pod has no volume at this path"),
        (f"{PIPELINE},pipeline.serviceAccount.name={chart.RELEASE}", "is the operator's account"),
        (f"{PIPELINE},pipeline.env[0].name=POD_IP,pipeline.env[0].value=x", "pipeline.env: POD_IP"),
        (PIPELINE + ",pipeline.extraArgs={--to=file:/x}", "pipeline.extraArgs: --to is set"),
        (PIPELINE + r",pipeline.podLabels.app\.kubernetes\.io/component=x", "component is set by"),
        (PIPELINE + r",pipeline.podAnnotations.checksum/settings=x", "checksum/settings is set by"),
    ],
)
def test_collision_is_refused_with_the_name_of_the_value(
    helm: Path, settings: str, says: str
) -> None:
    assert says in refusal(helm, settings)


IMPOSSIBLE = {
    "/image/repository": ["registry.example/op:tag", "Registry/Op"],
    "/image/tag": ["a b"],
    "/imagePullSecrets/0/name": ["A_b"],
    "/serviceAccount/name": ["A b"],
    "/priorityClassName": ["A_b"],
    "/podLabels/team": ["a b"],
    "/nodeSelector/disk": ["a/b"],
    "/resources/limits/memory": ["lots"],
    "/env/0/value": [5],
    "/env/0/name": ["1 A"],
    "/metrics/monitors/interval": ["0s"],
    "/metrics/rules/runbooks": ["https://a #b"],
    "/networkPolicy/apiServerPorts/0": [65536],
    "/page/port": [65536],
    "/pipeline/image/repository": ["a:b"],
    "/pipeline/bootstrap": ["a:65536", "a:0"],
    "/pipeline/schedule": ["@often", "TZ=UTC 0 * * *"],
    "/pipeline/volume/size": ["many", "0Gi"],
    "/pipeline/volume/storageClassName": ["A_b"],
    "/pipeline/master": ["local[0]", "local[,]"],
    "/pipeline/driver/memory": ["0g"],
    "/pipeline/executors/requestCpu": ["fast"],
    "/pipeline/sparkConf/spark.x": ["a\nspark.y z"],
}
POSSIBLE = {
    "/image/repository": ["localhost:5000/a/b-c.d_e", "REGISTRY/op"],
    "/image/tag": ["1.2.3@sha256:" + "0" * 64],
    "/pipeline/bootstrap": ["a:65535,b.c:1"],
    "/pipeline/schedule": ["*/5 0-6 1 jan-dec mon", "@daily"],
    "/pipeline/volume/size": ["1.5Ti", "1000"],
    "/pipeline/master": ["local[*, 3]", "local", "k8s://https://kubernetes.default.svc"],
    "/pipeline/executors/requestCpu": [0.5, "500m"],
    "/resources/requests/cpu": [1],
    "/metrics/rules/runbooks": ["https://a.example/b?c=d"],
}


def with_file(helm: Path, folder: Path, values: dict[str, list[Any]], index: int) -> str:
    """helm's message for these values, by pointer, in one file; empty if it accepts them."""
    tree: Any = {}
    for pointer, choices in values.items():
        at, steps = tree, pointer.split("/")[1:]
        for step, following in zip(steps, [*steps[1:], ""], strict=True):
            made: Any = [] if following == "0" else {}
            if not following:
                made = choices[index % len(choices)]
            if step == "0":
                at.append(made) if not at else None
                at = at[0]
            else:
                at.setdefault(step, made)
                at = at[step]
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(tree))
    command = ["template", "r", str(chart.CHART), "--kube-version", chart.KUBE_VERSION]
    return chart.run_helm(helm, *command, "--values", str(file)).stderr


@pytest.mark.parametrize("index", range(2))
def test_impossible_values_are_refused_with_their_paths(
    helm: Path, tmp_path: Path, index: int
) -> None:
    said = with_file(helm, tmp_path, IMPOSSIBLE, index)
    assert "don't meet the specifications of the schema" in said
    assert [pointer for pointer in IMPOSSIBLE if f"at '{pointer}'" not in said] == []


@pytest.mark.parametrize("index", range(3))
def test_unusual_values_are_accepted(helm: Path, tmp_path: Path, index: int) -> None:
    assert with_file(helm, tmp_path, POSSIBLE, index) == ""


def test_misspelt_resource_is_refused(helm: Path) -> None:
    assert "limit" in refusal(helm, "resources.limit.memory=1Gi")


def test_long_name_of_a_release_is_refused_for_a_schedule(helm: Path) -> None:
    """A CronJob adds 11 characters for its Jobs."""
    settings = ["--set", f"{PIPELINE},pipeline.schedule=@daily"]
    for length, accepted in ((43, True), (44, False)):
        command = ["template", "r" * length, str(chart.CHART), "--kube-version", chart.KUBE_VERSION]
        done = chart.run_helm(helm, *command, *settings)
        assert (done.returncode == 0) == accepted, done.stderr
        assert ("at most 43 characters" in done.stderr) != accepted


def test_release_name_that_no_service_may_have_is_refused(helm: Path) -> None:
    command = ["template", "1a", str(chart.CHART), "--kube-version", chart.KUBE_VERSION]
    assert chart.run_helm(helm, *command).returncode == 0
    done = chart.run_helm(helm, *command, "--set", "metrics.service=true")
    assert "metrics.service: the name of a Service" in done.stderr


def test_fields_that_can_not_be_changed_are_those_of_earlier_charts(helm: Path) -> None:
    """Otherwise `helm upgrade` fails. They are the same since the first chart."""
    rendered = chart.by_key(
        chart.render(helm, PIPELINE, "pipeline.master=k8s://https://kubernetes.default.svc")
    )
    space, name = chart.NAMESPACE, chart.RELEASE
    part = "app.kubernetes.io/"

    def labels(whose: str, **more: str) -> dict[str, Any]:
        found = {f"{part}name": whose, f"{part}instance": name}
        return {"matchLabels": found | {part + key: value for key, value in more.items()}}

    deployed = {
        (name, "selector"): labels("metadataquorum-operator"),
        (f"{name}-pipeline", "selector"): labels("metadataquorum-pipeline", component="driver"),
    }
    for (which, field), value in deployed.items():
        assert rendered["Deployment", space, which]["spec"][field] == value
    claim = rendered["PersistentVolumeClaim", space, f"{name}-pipeline"]["spec"]
    assert claim == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    bound = {
        key: document["roleRef"]["kind"] + "/" + document["roleRef"]["name"]
        for key, document in rendered.items()
        if "roleRef" in document
    }
    assert bound == {
        ("ClusterRoleBinding", "", f"{space}-{name}"): f"ClusterRole/{space}-{name}",
        ("RoleBinding", space, name): f"Role/{name}",
        ("RoleBinding", space, f"{name}-lease"): f"Role/{name}-lease",
        ("RoleBinding", space, f"{name}-pipeline"): f"Role/{name}-pipeline",
    }
