"""Brokers of this software beside a quorum, as examples/kafka applies them, and stock clients in a pod.

Must not know the tests.
"""

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.kafka import KafkaBrokers, documents

_OF_TLS = frozenset({"admin", "trust"})


class PythonKafkaBrokers(KafkaBrokers):
    """Three brokers without TLS and users, on a quorum without certificates; the tools are Kafka's."""

    def _documents(self) -> list[Json]:
        path = kube.quorums(self._quorum.namespace, self._quorum.name)
        node_image = self._cluster.api.get(path)["spec"]["image"]
        return python_documents(self._quorum.name, node_image, self.image)

    def _client_properties(self) -> str:
        return "security.protocol=PLAINTEXT\n"


def python_documents(quorum: str, node_image: str, tools_image: str) -> list[Json]:
    """The example's, with this quorum and these images in them."""
    found = [
        each
        for each in documents(quorum, tools_image, ("tools.yaml",))
        if each["kind"] in ("Pod", "ConfigMap")
    ]
    for document in found:
        if document["kind"] == "Pod":
            _without_tls(document)
    brokers = documents(quorum, node_image, ("python-brokers.yaml",))
    return [*brokers, *found]


def _without_tls(pod: Json) -> None:
    spec = pod["spec"]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] not in _OF_TLS]
    (container,) = spec["containers"]
    container["volumeMounts"] = [
        each for each in container["volumeMounts"] if each["name"] not in _OF_TLS
    ]
