"""Names that YAML would read as a number, a boolean or a date: Kubernetes allows them, and they are rendered as strings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import chart
from support.yaml_text import read_yaml

STRINGS = frozenset(
    {
        *("name", "namespace", "serviceAccountName", "priorityClassName", "secretName"),
        *("claimName", "storageClassName", "image", "value", "storage"),
    }
)
"""Fields that the API server takes only as strings."""
OF_STRINGS = frozenset(
    {
        *("labels", "annotations", "matchLabels", "selector", "resourceNames", "matchNames"),
        *("data", "args"),
    }
)
"""Mappings and lists whose values it takes only as strings."""
KINDS = ("PodMonitor", "PrometheusRule")
EVERYTHING = {
    "crds.install": "false",
    "replicaCount": "2",
    "metrics.dashboard.enabled": "true",
    "networkPolicy.enabled": "true",
    "page.enabled": "true",
    "pipeline.enabled": "true",
    "pipeline.master": "k8s://https://kubernetes.default.svc",
}
NAMED = (
    *("priorityClassName", "serviceAccount.name", "watchNamespaces[0]", "imagePullSecrets[0].name"),
    *("image.repository", "image.tag", "pipeline.image.repository", "pipeline.image.tag"),
    *("pipeline.tls.secret", "pipeline.priorityClassName"),
)


def rendered(helm: Path, name: str, *settings: str) -> list[chart.Json]:
    """The chart with this name for everything that a user names."""
    command = ["template", name, str(chart.CHART), "--namespace", name]
    command += ["--kube-version", chart.KUBE_VERSION]
    for kind in KINDS:
        command += ["--api-versions", f"monitoring.coreos.com/v1/{kind}"]
    for key, value in EVERYTHING.items():
        command += ["--set", f"{key}={value}"]
    named = [f"{key}={name}" for key in NAMED]
    for setting in (*named, f"pipeline.bootstrap={name}-bootstrap:1", *settings):
        command += ["--set-string", setting]
    done = chart.run_helm(helm, *command)
    assert done.returncode == 0, done.stderr
    return list(chart.objects(done.stdout))


def others(at: Any, path: str = "", *, strings: bool = False) -> Iterator[str]:
    """Paths of values that must be strings, and are not."""
    entries = at.items() if isinstance(at, dict) else enumerate(at)
    for key, value in entries:
        place = f"{path}.{key}"
        if isinstance(value, dict | list):
            yield from others(value, place, strings=key in OF_STRINGS)
        elif (strings or key in STRINGS) and not isinstance(value, str):
            yield f"{place}: {value!r}"


@pytest.mark.parametrize(
    "settings",
    [
        ["pipeline.serviceAccount.name=8", "pipeline.volume.existingClaim=0x1f"],
        ["pipeline.volume.storageClassName=5", "pipeline.volume.size=10"],
        ["pipeline.schedule=@daily"],
    ],
)
@pytest.mark.parametrize("name", ["7", "2024", "on", "null", "1e3", "2024-01-01"])
def test_names_are_strings_whatever_yaml_reads_in_them(
    helm: Path, name: str, settings: list[str]
) -> None:
    documents = rendered(helm, name, *settings)
    found = [each for document in documents for each in others(document, document["kind"])]
    assert found == []
    spark = chart.by_key(documents)["ConfigMap", name, f"{name}-pipeline"]["data"]
    assert f"spark.kubernetes.namespace {name}\n" in spark["spark-defaults.conf"]
    assert list(others(read_yaml(spark["executor.yaml"]), "executor")) == []
