"""PartitionReassignment resources of tests on kind."""

from support.envtest.kube_api import Json
from support.kind_env import kube


def reassignment(topic: str, quorum: str, wanted: dict[int, tuple[int, ...]]) -> Json:
    """The resource that moves a topic's partitions, three at a time."""
    return {
        "apiVersion": kube.API_VERSION,
        "kind": "PartitionReassignment",
        "metadata": {"name": topic},
        "spec": {
            "quorum": quorum,
            "maxMovingPartitions": 3,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": list(replicas)}
                for number, replicas in wanted.items()
            ],
        },
    }
