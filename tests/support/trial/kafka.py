"""Stock Kafka brokers beside a quorum, as examples/kafka applies them, and stock clients in a pod.

Must not know what a test asks of them.
"""

import base64
import io
import zipfile
from pathlib import Path
from types import TracebackType

import yaml

from support import stock_kafka
from support.harness.kube_api import Json
from support.java_clients import CLIENT_SHELL, Clients, compiled_shell
from support.trial import kube
from support.trial.bed import REPOSITORY, kafka_image, lifecycle, programs
from support.trial.quorum import Quorum
from support.trial.stage import Stage
from support.trial.waiting import wait_for

EXAMPLE = REPOSITORY / "examples" / "kafka" / "brokers.yaml"
NAME = "kafka"
_EXAMPLE_QUORUM = "demo"
_CLIENT = "kafka-client"
_READY_TIMEOUT_S = 300.0
_GONE_TIMEOUT_S = 60.0
_PLURALS = {
    "ConfigMap": kube.core,
    "Service": kube.core,
    "PodDisruptionBudget": kube.policy,
    "StatefulSet": kube.apps,
}


class KafkaBrokers:
    """Three brokers in the namespace of a quorum. Use as a context manager: it deletes them again."""

    def __init__(self, stage: Stage, quorum: Quorum, folder: Path) -> None:
        self._stage = stage
        self._quorum = quorum
        self._folder = folder
        self._clients: Clients | None = None
        self.image = kafka_image.ensure(stock_kafka.jars)

    def __enter__(self) -> "KafkaBrokers":
        lifecycle.load(self._stage.cluster, [self.image])
        for document in documents(self._quorum.name, self.image):
            self._apply(document)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """They would wait for a controller to let them go, which may not be there any more."""
        if self._clients is not None:
            self._clients.close()
        api, namespace = self._stage.api, self._quorum.namespace
        api.delete(kube.apps(namespace, "statefulsets", NAME))
        for pod in (*self.pods(), _CLIENT):
            api.delete(kube.core(namespace, "pods", pod), grace_s=0)
        wait_for("brokers to be gone", lambda: not self.pods(), timeout_s=_GONE_TIMEOUT_S)

    def pods(self) -> list[str]:
        """Names of their pods."""
        found = self._stage.api.list(
            kube.core(self._quorum.namespace, "pods"), f"app.kubernetes.io/name={NAME}"
        )
        return [pod["metadata"]["name"] for pod in found]

    def wait_ready(self) -> None:
        """Until every broker takes connections."""
        path = kube.apps(self._quorum.namespace, "statefulsets", NAME)

        def status() -> Json:
            found: Json = self._stage.api.get(path).get("status", {})
            return found

        wait_for(
            "three brokers",
            lambda: status().get("readyReplicas", 0) == 3,
            timeout_s=_READY_TIMEOUT_S,
            seen=status,
        )

    @property
    def clients(self) -> Clients:
        """Stock clients in a pod of their own, started on first use."""
        if self._clients is None:
            self._clients = self._start_clients()
        return self._clients

    def _start_clients(self) -> Clients:
        namespace, api = self._quorum.namespace, self._stage.api
        program = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _CLIENT},
            "data": {stock_kafka.LOGGING.name: stock_kafka.LOGGING.read_text()},
            "binaryData": {"shell.jar": base64.b64encode(_archive(compiled_shell())).decode()},
        }
        api.apply(kube.core(namespace, "configmaps", _CLIENT), program)
        path = kube.core(namespace, "pods", _CLIENT)
        api.apply(path, _client_pod(self.image))
        wait_for(
            "the pod of the clients",
            lambda: api.get(path).get("status", {}).get("phase") == "Running",
            timeout_s=60,
            seen=lambda: api.get(path).get("status"),
        )
        kubectl = [str(programs.kubectl()), "--kubeconfig", str(self._stage.kubeconfig)]
        java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        java += [f"-Dlog4j2.configurationFile=/program/{stock_kafka.LOGGING.name}"]
        java += ["-cp", "/program/shell.jar:/opt/kafka/libs/*", CLIENT_SHELL, f"{NAME}:9092"]
        command = [*kubectl, "-n", namespace, "exec", "-i", _CLIENT, "--", *java]
        return Clients(command, self._folder)

    def _apply(self, document: Json) -> None:
        kind, name = document["kind"], document["metadata"]["name"]
        path = _PLURALS[kind](self._quorum.namespace, f"{kind.lower()}s", name)
        self._stage.api.apply(path, document)


def documents(quorum: str, image: str) -> list[Json]:
    """The example, with this quorum and this image in it."""
    text = EXAMPLE.read_text().replace(f"{_EXAMPLE_QUORUM}-", f"{quorum}-")
    text = text.replace(f"/quorum: {_EXAMPLE_QUORUM}\n", f"/quorum: {quorum}\n")
    found: list[Json] = list(yaml.safe_load_all(text))
    (brokers,) = (each for each in found if each["kind"] == "StatefulSet")
    brokers["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return found


def _client_pod(image: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _CLIENT},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "client",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "infinity"],
                    "volumeMounts": [{"name": "program", "mountPath": "/program"}],
                }
            ],
            "volumes": [{"name": "program", "configMap": {"name": _CLIENT}}],
        },
    }


def _archive(folder: Path) -> bytes:
    """A jar: keys of a ConfigMap can't have the names of nested classes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as jar:
        for file in sorted(folder.glob("*.class")):
            jar.write(file, file.name)
    return data.getvalue()
