"""Brokers of this software beside a quorum, as examples/kafka applies them, and stock clients in a pod.

Must not know the tests.
"""

import json
from pathlib import Path

from support.envtest.kube_api import Json
from support.kind_env import installation, kube
from support.kind_env.kafka import NAME, KafkaBrokers, documents
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.quorum import Quorum
from support.kind_env.testbed import run
from support.kind_env.waiting import wait_for

STOCK = "kafka-stock"
_READY_TIMEOUT_S = 300.0
_OF_TLS = frozenset({"admin", "trust"})


class PythonKafkaBrokers(KafkaBrokers):
    """Three brokers without TLS and users, on a quorum without certificates; the tools are Kafka's."""

    file = "python-brokers.yaml"

    def _node_image(self) -> str:
        path = kube.quorums(self._quorum.namespace, self._quorum.name)
        image: str = self._cluster.api.get(path)["spec"]["image"]
        return image

    def _documents(self) -> list[Json]:
        return python_documents(self._quorum.name, self._node_image(), self.image, self.file)

    def _client_properties(self) -> str:
        return "security.protocol=PLAINTEXT\n"


class MixedKafkaBrokers(PythonKafkaBrokers):
    """Beside them three stock brokers, in a StatefulSet of their own."""

    file = "mixed-brokers.yaml"

    def _documents(self) -> list[Json]:
        found = super()._documents()
        for document in found:
            if document["metadata"]["name"] == STOCK:
                document["spec"]["template"]["spec"]["containers"][0]["image"] = self.image
        return found

    def __exit__(self, *exc: object) -> None:
        self._cluster.api.delete(kube.apps(self._quorum.namespace, "statefulsets", STOCK))
        super().__exit__(*exc)

    def wait_ready(self) -> None:
        """Wait until every broker of both kinds accepts connections."""
        super().wait_ready()
        path = kube.apps(self._quorum.namespace, "statefulsets", STOCK)

        def status() -> Json:
            found: Json = self._cluster.api.get(path).get("status", {})
            return found

        wait_for(
            "three stock brokers",
            lambda: status().get("readyReplicas", 0) == 3,
            timeout_s=_READY_TIMEOUT_S,
            seen=status,
        )


class CombinedKafkaBrokers(PythonKafkaBrokers):
    """Three pods with both roles, as the example with a founder applies them: there is no MetadataQuorum of this name."""

    file = "combined-founder.yaml"

    def __init__(self, cluster: OperatorCluster, namespace: str, folder: Path) -> None:
        super().__init__(cluster, Quorum(cluster.api, namespace, NAME), folder)

    def _node_image(self) -> str:
        image: str = installation.example()["spec"]["image"]
        return image

    def forget_formation(self) -> None:
        """Remove the keys of the formation, so that a pod with an empty disk can only join."""
        path = kube.core(self._quorum.namespace, "configmaps", NAME)
        self._cluster.api.merge(path, {"data": {"formation.properties": None}})

    def quorumctl(self, pod: str, *arguments: str) -> Json:
        """The document that `quorumctl` prints in a pod. Raises TestbedError if it is refused."""
        command = [*self._exec(pod), "quorumctl", "--json", *arguments]
        printed: Json = json.loads(run(command, timeout_s=60).stdout)
        return printed


def python_documents(
    quorum: str, node_image: str, tools_image: str, file: str = "python-brokers.yaml"
) -> list[Json]:
    """The example's, with this quorum and these images in them."""
    found = [
        each
        for each in documents(quorum, tools_image, ("tools.yaml",))
        if each["kind"] in ("Pod", "ConfigMap")
    ]
    for document in found:
        if document["kind"] == "Pod":
            _without_tls(document)
    brokers = documents(quorum, node_image, (file,))
    return [*brokers, *found]


def _without_tls(pod: Json) -> None:
    spec = pod["spec"]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] not in _OF_TLS]
    (container,) = spec["containers"]
    container["volumeMounts"] = [
        each for each in container["volumeMounts"] if each["name"] not in _OF_TLS
    ]
