"""The operator on a cluster, by Helm; a MetadataQuorum, and a NodePort for a workload on it."""

from pathlib import Path

import yaml

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.kind_env.quorum import ADMIN_PORT, SECURE_ADMIN_PORT, Quorum
from support.kind_env.testbed import REPOSITORY, STORAGE_CLASS, programs, run
from support.kind_env.waiting import wait_for
from support.yaml_text import read_yaml, read_yaml_all

CHART = REPOSITORY / "helm" / "metadataquorum"
MANIFESTS = REPOSITORY / "manifests" / "install.yaml"
WATCHED = REPOSITORY / "manifests" / "watched-namespace.yaml"
EXAMPLE = REPOSITORY / "examples" / "quorum.yaml"
RELEASE = "metadataquorum"
OPERATOR_NAMESPACE = "metadataquorum-system"
OPERATOR_SELECTOR = "app.kubernetes.io/name=metadataquorum-operator"


def helm_install(kubeconfig: Path, operator_image: str) -> None:
    """Installs or upgrades the chart and waits until the operator is ready.

    The image's id is an annotation, so that a new image under an old tag is rolled out.
    """
    repository, tag = operator_image.rsplit(":", 1)
    inspected = run(["docker", "image", "inspect", "-f", "{{.Id}}", operator_image], timeout_s=30)
    command = [*helm_command(kubeconfig), "upgrade", "--install", RELEASE, str(CHART)]
    command += ["--namespace", OPERATOR_NAMESPACE, "--create-namespace"]
    command += ["--set", f"image.repository={repository},image.tag={tag}"]
    command += ["--set", "watchNamespaces={*}"]  # each test has a namespace of its own
    command += ["--set", f"podAnnotations.image-id={inspected.stdout.strip()}"]
    run([*command, "--wait", "--timeout", "180s"], timeout_s=240)


def helm_uninstall(kubeconfig: Path) -> None:
    command = [*helm_command(kubeconfig), "uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE]
    run([*command, "--wait"], timeout_s=240)


def apply_manifests(api: Kube, kubeconfig: Path, operator_image: str, namespace: str) -> None:
    """Apply the plain manifests with this image and the watched `namespace`; returns when the operator is ready."""
    rights = ["apply", "-n", namespace, "-f", str(WATCHED)]
    run([*kubectl_command(kubeconfig), *rights], timeout_s=60)
    text = yaml.safe_dump_all(_manifests(operator_image, namespace))
    run([*kubectl_command(kubeconfig), "apply", "-f", "-"], stdin=text, timeout_s=60)
    path = kube.apps(OPERATOR_NAMESPACE, "deployments", RELEASE)
    wait_for("the operator", lambda: deployment_is_current(api, path), timeout_s=120)


def delete_manifests(kubeconfig: Path, operator_image: str) -> None:
    """Delete everything in them except the definition, whose deletion would delete every MetadataQuorum."""
    kept = ("CustomResourceDefinition", "Namespace")
    gone = [
        each for each in _manifests(operator_image, OPERATOR_NAMESPACE) if each["kind"] not in kept
    ]
    command = [*kubectl_command(kubeconfig), "delete", "--timeout=60s", "-f", "-"]
    run(command, stdin=yaml.safe_dump_all(gone), timeout_s=90)


def _manifests(operator_image: str, watched: str) -> list[Json]:
    documents: list[Json] = list(read_yaml_all(MANIFESTS.read_text()))
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["image"] = operator_image
    (reported,) = (each for each in container["env"] if each["name"] == "WATCH_NAMESPACE")
    reported["value"] = watched
    return documents


def kubectl_command(kubeconfig: Path) -> list[str]:
    return [str(programs.kubectl()), "--kubeconfig", str(kubeconfig)]


def helm_command(kubeconfig: Path) -> list[str]:
    return [str(programs.helm()), "--kubeconfig", str(kubeconfig)]


def operator_pods(api: Kube) -> list[Json]:
    return api.list(kube.core(OPERATOR_NAMESPACE, "pods"), OPERATOR_SELECTOR)


def deployment_is_current(api: Kube, path: str) -> bool:
    found = api.get(path)
    wanted, status = found["spec"]["replicas"], found.get("status", {})
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


def example() -> Json:
    """The resource in examples/quorum.yaml, on disks that can fail instead of the default storage class."""
    document: Json = read_yaml(EXAMPLE.read_text())
    document["spec"]["storage"]["storageClassName"] = STORAGE_CLASS
    return document


def apply_quorum(api: Kube, document: Json, namespace: str) -> Quorum:
    """Applies the resource; returns a handle on it."""
    name = document["metadata"]["name"]
    metadata = {**document["metadata"], "namespace": namespace}
    api.apply(kube.quorums(namespace, name), {**document, "metadata": metadata})
    return Quorum(api, namespace, name)


def publish(quorum: Quorum, node_port: int, host_port: int) -> str:
    """A NodePort on the ready pods of the quorum; the URL that reaches it from this machine, at `host_port`."""
    name = f"{quorum.name}-outside"
    secured = quorum.is_secured()
    port = SECURE_ADMIN_PORT if secured else ADMIN_PORT
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": quorum.namespace},
        "spec": {
            "type": "NodePort",
            "selector": {
                "app.kubernetes.io/name": "metadataquorum",
                "app.kubernetes.io/instance": quorum.name,
            },
            "ports": [{"name": "admin", "port": port, "nodePort": node_port}],
        },
    }
    quorum.api.apply(kube.core(quorum.namespace, "services", name), service)
    # The certificate of each member has this name.
    return f"https://localhost:{host_port}" if secured else f"http://127.0.0.1:{host_port}"
