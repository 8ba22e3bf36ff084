"""Partitions of brokers: which ones ask for attention. PURE.

Owns the look at the image; everything goes by the partitions of the brokers in question, never by all (KV3-02).
Must not know what is to be done about them (`partition_repair.py`).
"""

from collections.abc import Iterator

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition_sets import IndexKey


def suspicious(image: ClusterImage) -> Iterator[IndexKey | None]:
    """Partitions that may have to change: of brokers that are not active, and without a leader.

    None is a partition of such a broker that is in order: a broker that has been away for long may have a million of
    them, and whoever walks through this has to be able to pause. The image may change meanwhile: this goes on over what
    it began with.
    """
    topics, brokers = image.topics, image.brokers
    yield from topics.marked_leaderless
    for broker_id in sorted(topics.of_brokers.brokers()):
        if brokers.is_active(broker_id):
            continue
        for key, partition in topics.partitions_of(broker_id):
            concerned = broker_id in partition.isr or broker_id == partition.leader
            yield key if concerned else None
