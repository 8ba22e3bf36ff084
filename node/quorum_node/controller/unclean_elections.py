"""Counts the unclean elections of a decision. PURE.

Owns the count, whatever caused the election: a failed broker, ElectLeaders, a cancelled
reassignment.
Source: the replication design V3, "B. Leader change": an unclean election is counted, as messages
may be lost.
"""

from collections.abc import Sequence

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.metadata import MetadataMessage, PartitionChangeRecord


def unclean_elections(before: ClusterImage, records: Sequence[MetadataMessage]) -> int:
    """Partitions whose new leader was neither in the ISR nor an eligible leader replica in `before`."""
    found = 0
    for record in records:
        if type(record) is PartitionChangeRecord and record.leader >= 0:
            partition = before.topics.partition(record.topic_id, record.partition_id)
            if partition is not None and record.leader not in (
                *partition.isr,
                *(partition.eligible_leader_replicas or ()),
            ):
                found += 1
    return found
