"""Stock Kafka brokers beside a quorum, as examples/kafka applies them, and stock clients in a pod.

Must not know the tests.
"""

import base64
import io
import zipfile
from pathlib import Path
from typing import Self

from support import stock_kafka
from support.client_properties import by_password
from support.envtest.kube_api import Json
from support.java_clients import CLIENT_SHELL, Clients, compiled_shell
from support.kind_env import kube
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.quorum import Quorum
from support.kind_env.testbed import (
    REPOSITORY,
    STORAGE_CLASS,
    kafka_image,
    lifecycle,
    programs,
    run,
)
from support.kind_env.waiting import wait_for
from support.yaml_text import read_yaml, read_yaml_all

EXAMPLE = REPOSITORY / "examples" / "kafka"
NAME = "kafka"
USER = "alice"
_EXAMPLE_QUORUM = "demo"
_TOOLS = "kafka-tools"
_PROGRAM = "kafka-client-shell"
_ACLS = "org.apache.kafka.tools.AclCommand"
_READY_TIMEOUT_S = 300.0
_GONE_TIMEOUT_S = 60.0
_TOOL_TIMEOUT_S = 120.0
_PLURALS = {
    "ConfigMap": kube.core,
    "Pod": kube.core,
    "Service": kube.core,
    "PodDisruptionBudget": kube.policy,
    "StatefulSet": kube.apps,
}


class KafkaBrokers:
    """Three brokers in the namespace of a quorum. Use as a context manager: it deletes them again."""

    def __init__(self, cluster: OperatorCluster, quorum: Quorum, folder: Path) -> None:
        self._cluster = cluster
        self._quorum = quorum
        self._folder = folder
        self._clients: Clients | None = None
        self.image = kafka_image.ensure(stock_kafka.jars)

    def __enter__(self) -> Self:
        lifecycle.load(self._cluster.name, [self.image])
        self._make_secret()
        self._make_program()
        for document in self._documents():
            self._apply(document)
        return self

    def __exit__(self, *exc: object) -> None:
        """Delete them without waiting: they would wait for a controller that may not exist any more."""
        if self._clients is not None:
            self._clients.close()
        api, namespace = self._cluster.api, self._quorum.namespace
        api.delete(kube.apps(namespace, "statefulsets", NAME))
        for pod in (*self.pods(), _TOOLS):
            api.delete(kube.core(namespace, "pods", pod), grace_s=0)
        wait_for("brokers to be gone", lambda: not self.pods(), timeout_s=_GONE_TIMEOUT_S)

    def _documents(self) -> list[Json]:
        """The applied objects."""
        return documents(self._quorum.name, self.image)

    def _client_properties(self) -> str:
        """Properties of a client that logs in as the user."""
        return by_password(USER, f"{USER}s", Path("/etc/kafka-trust/ca.crt"))

    def pods(self) -> list[str]:
        """Names of their pods."""
        found = self._cluster.api.list(
            kube.core(self._quorum.namespace, "pods"), f"app.kubernetes.io/name={NAME}"
        )
        return [pod["metadata"]["name"] for pod in found]

    def wait_ready(self) -> None:
        """Wait until every broker accepts connections."""
        path = kube.apps(self._quorum.namespace, "statefulsets", NAME)

        def status() -> Json:
            found: Json = self._cluster.api.get(path).get("status", {})
            return found

        wait_for(
            "three brokers",
            lambda: status().get("readyReplicas", 0) == 3,
            timeout_s=_READY_TIMEOUT_S,
            seen=status,
        )

    def scale(self, brokers: int) -> None:
        """Set the number of brokers."""
        path = kube.apps(self._quorum.namespace, "statefulsets", NAME)
        self._cluster.api.merge(path, {"spec": {"replicas": brokers}})

    def wait_pod_ready(self, broker: int, *, ready: bool = True) -> None:
        """Wait until one broker accepts connections, or does not any more."""
        path = kube.core(self._quorum.namespace, "pods", f"{NAME}-{broker}")

        def conditions() -> dict[str, str]:
            pod = self._cluster.api.find(path) or {}
            found = pod.get("status", {}).get("conditions", [])
            return {each["type"]: each["status"] for each in found}

        wait_for(
            f"broker {broker} to be {'ready' if ready else 'not ready'}",
            lambda: (conditions().get("Ready") == "True") == ready,
            timeout_s=_READY_TIMEOUT_S,
            seen=conditions,
        )

    def restart(self) -> None:
        """Restart all brokers and clients, which read certificates only when they start."""
        if self._clients is not None:
            self._clients.close()
            self._clients = None
        api, namespace = self._cluster.api, self._quorum.namespace
        paths = [kube.core(namespace, "pods", pod) for pod in (*self.pods(), _TOOLS)]
        before = {path: api.get(path)["metadata"]["uid"] for path in paths}
        for path in paths:
            api.delete(path, grace_s=0)

        def left() -> list[str]:
            found = {path: api.find(path) for path in paths}
            return [p for p, pod in found.items() if pod and pod["metadata"]["uid"] == before[p]]

        wait_for("the pods of before to be gone", lambda: not left(), timeout_s=_GONE_TIMEOUT_S)
        for document in self._documents():
            if document["kind"] == "Pod":
                self._apply(document)

    @property
    def clients(self) -> Clients:
        """Stock clients in the pod of the tools, started on first use; they log in as `USER`."""
        if self._clients is None:
            self._wait_for_tools()
            arguments = [CLIENT_SHELL, f"{NAME}:9092", "/etc/kafka-user/client.properties"]
            java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
            java += [f"-Dlog4j2.configurationFile=/program/{stock_kafka.LOGGING.name}"]
            java += ["-cp", "/program/shell.jar:/opt/kafka/libs/*", *arguments]
            self._clients = Clients([*self._exec(), *java], self._folder)
        return self._clients

    def make_user(self) -> None:
        """Create `USER` and the access control entries, as the README.md of the example describes."""
        self._wait_for_tools()
        subject = f"CN=admin,OU=admin,O={self._quorum.name}.{self._quorum.namespace}"
        self._grant(f"User:{subject}", "All", "--cluster")
        self._grant(f"User:{USER}", "All", "--topic", "*", "--group", "*")
        self._grant(f"User:{USER}", "Describe", "--cluster")
        credential = f"SCRAM-SHA-512=[password={USER}s]"
        who = ["--entity-type", "users", "--entity-name", USER]
        options = [
            "--bootstrap-server",
            f"{NAME}:9091",
            "--alter",
            *who,
            "--add-config",
            credential,
        ]
        self._tool(stock_kafka.CONFIGS, *options)

    def _grant(self, principal: str, operation: str, *resources: str) -> None:
        controllers = f"{self._quorum.name}-bootstrap:9093"
        options = [
            "--bootstrap-controller",
            controllers,
            "--add",
            "--force",
            "--operation",
            operation,
        ]
        self._tool(_ACLS, *options, "--allow-principal", principal, *resources)

    def _tool(self, tool: str, *arguments: str) -> None:
        command = ["sh", "/etc/kafka-tools/kafka.sh", tool, *arguments]
        command += ["--command-config", "/etc/kafka-tools/admin.properties"]
        run([*self._exec(), *command], timeout_s=_TOOL_TIMEOUT_S)

    def _exec(self, pod: str = _TOOLS) -> list[str]:
        """The beginning of a command in a pod."""
        kubectl = [str(programs.kubectl()), "--kubeconfig", str(self._cluster.kubeconfig)]
        return [*kubectl, "-n", self._quorum.namespace, "exec", "-i", pod, "--"]

    def _make_secret(self) -> None:
        """Create the Secret of the user, as README.md does with kubectl."""
        name = f"{NAME}-{USER}"
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": {"client.properties": self._client_properties()},
        }
        self._cluster.api.apply(kube.core(self._quorum.namespace, "secrets", name), secret)

    def _make_program(self) -> None:
        """The client shell, for the pod of the tools."""
        program = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _PROGRAM},
            "data": {stock_kafka.LOGGING.name: stock_kafka.LOGGING.read_text()},
            "binaryData": {"shell.jar": base64.b64encode(_archive(compiled_shell())).decode()},
        }
        path = kube.core(self._quorum.namespace, "configmaps", _PROGRAM)
        self._cluster.api.apply(path, program)

    def _wait_for_tools(self) -> None:
        api = self._cluster.api
        path = kube.core(self._quorum.namespace, "pods", _TOOLS)
        wait_for(
            "the pod of the tools",
            lambda: api.get(path).get("status", {}).get("phase") == "Running",
            timeout_s=60,
            seen=lambda: api.get(path).get("status"),
        )

    def _apply(self, document: Json) -> None:
        kind, name = document["kind"], document["metadata"]["name"]
        path = _PLURALS[kind](self._quorum.namespace, f"{kind.lower()}s", name)
        self._cluster.api.apply(path, document)


def identities() -> Json:
    """`spec.tls` of the example's quorum: certificates for the brokers."""
    quorum: Json = read_yaml((EXAMPLE / "quorum.yaml").read_text())
    tls: Json = quorum["spec"]["tls"]
    return tls


def documents(
    quorum: str, image: str, files: tuple[str, ...] = ("brokers.yaml", "tools.yaml")
) -> list[Json]:
    """The example, with this quorum and this image in it; the tools have the client shell beside them."""
    found: list[Json] = []
    for name in files:
        text = (EXAMPLE / name).read_text().replace(f"{_EXAMPLE_QUORUM}-", f"{quorum}-")
        text = text.replace(f"/quorum: {_EXAMPLE_QUORUM}\n", f"/quorum: {quorum}\n")
        found += read_yaml_all(text.replace(f"O={_EXAMPLE_QUORUM}.", f"O={quorum}."))
    for document in found:
        if document["kind"] == "StatefulSet":
            document["spec"]["template"]["spec"]["containers"][0]["image"] = image
            for each in document["spec"]["volumeClaimTemplates"]:
                each["spec"]["storageClassName"] = STORAGE_CLASS
        if document["kind"] == "Pod":
            (container,) = document["spec"]["containers"]
            container["image"] = image
            container["volumeMounts"].append({"name": "program", "mountPath": "/program"})
            program = {"name": "program", "configMap": {"name": _PROGRAM}}
            document["spec"]["volumes"].append(program)
    return found


def _archive(folder: Path) -> bytes:
    """A jar: keys of a ConfigMap can't have the names of nested classes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as jar:
        for file in sorted(folder.glob("*.class")):
            jar.write(file, file.name)
    return data.getvalue()
