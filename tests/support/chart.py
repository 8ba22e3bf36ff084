"""The Helm chart and the plain manifests, as objects.

Owns rendering, and queries that apply to any set of manifests. helm is looked up, never built here: the testbed builds it.
"""

import functools
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Json: TypeAlias = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "metadataquorum"
PLAIN = ROOT / "manifests" / "install.yaml"
CRDS = tuple(sorted((ROOT / "crds").glob("*.yaml")))
WATCHED = ROOT / "manifests" / "watched-namespace.yaml"
RELEASE = "metadataquorum"
NAMESPACE = "metadataquorum-system"
# A helm that was compiled from its module has no default Kubernetes version.
KUBE_VERSION = "1.34.0"

CLUSTER_SCOPED = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"}
)
READ_VERBS = frozenset({"get", "list", "watch"})


def helm_at_hand() -> Path | None:
    """helm on PATH, else the one that the testbed built earlier."""
    found = shutil.which("helm")
    if found is not None:
        return Path(found)
    cache = os.environ.get("METADATAQUORUM_CACHE") or Path.home() / ".cache" / "metadataquorum"
    built = sorted(Path(cache).glob("programs/helm-*/helm"))
    return built[-1] if built else None


def run_helm(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [helm, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def render(helm: Path, *settings: str, hooks: bool = True) -> list[Json]:
    """The chart's objects. `settings` as for `--set`. Raises ValueError with helm's output."""
    return list(objects(rendered_text(helm, settings, hooks=hooks)))


@functools.cache
def rendered_text(
    helm: Path, settings: tuple[str, ...], *, hooks: bool = True, kinds: tuple[str, ...] = ()
) -> str:
    """The same as text, once for each choice. `kinds`: what the cluster has, as for `--api-versions`."""
    command = ["template", RELEASE, str(CHART), "--namespace", NAMESPACE]
    command += ["--kube-version", KUBE_VERSION, *([] if hooks else ["--no-hooks"])]
    for kind in kinds:
        command += ["--api-versions", kind]
    for setting in settings:
        command += ["--set", setting]
    done = run_helm(helm, *command)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return done.stdout


def objects(text: str) -> Iterator[Json]:
    """By libyaml: every worker of a test run reads the manifests when it collects, and a definition has thousands of lines."""
    return (document for document in yaml.load_all(text, yaml.CSafeLoader) if document)


def plain() -> list[Json]:
    """The checked-in manifests."""
    return list(objects(PLAIN.read_text()))


def watched(namespace: str) -> list[Json]:
    """The operator's rights in one more namespace, as `kubectl apply -n` makes them."""
    documents = list(objects(WATCHED.read_text()))
    for document in documents:
        document["metadata"]["namespace"] = namespace
    return documents


def key(document: Json) -> tuple[str, str, str]:
    """Kind, namespace, name."""
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def by_key(documents: Iterable[Json]) -> dict[tuple[str, str, str], Json]:
    return {key(document): document for document in documents}


def of_kind(documents: Iterable[Json], *kinds: str) -> list[Json]:
    return [document for document in documents if document["kind"] in kinds]


def the(documents: Iterable[Json], kind: str) -> Json:
    """The only object of this kind."""
    (found,) = of_kind(documents, kind)
    return found


def granted(roles: Iterable[Json]) -> set[tuple[str, str, str]]:
    """(API group, resource, verb) of every rule."""
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
