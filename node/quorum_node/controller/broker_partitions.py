"""Finds partitions of brokers that may have to change. PURE.

Owns the search in the image. Its cost depends on the partitions of the brokers in question, never
on all (KV3-02). Must not know what has to be changed (`partition_repair.py`).
"""

from collections.abc import Iterator

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition_sets import IndexKey


def suspicious(image: ClusterImage) -> Iterator[IndexKey | None]:
    """Partitions that may have to change: those of brokers that are not active, and those without a
    leader.

    Yields None for each partition of such a broker that needs no change. A broker that was away for
    long may have a million of them, so the caller has to be able to pause. The iteration continues
    over the initial image even if the image changes meanwhile.
    """
    topics, brokers = image.topics, image.brokers
    yield from topics.marked_leaderless
    for broker_id in sorted(topics.of_brokers.brokers()):
        if brokers.is_active(broker_id):
            continue
        for key, partition in topics.partitions_of(broker_id):
            concerned = broker_id in partition.isr or broker_id == partition.leader
            yield key if concerned else None
