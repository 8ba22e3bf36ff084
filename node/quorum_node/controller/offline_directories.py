"""Effects of failed log directories on partitions: the replicas in them leave ISRs and leaderships. PURE.

Owns the changes in bounded steps. They come before the change of the registration, which the broker reports again with every heartbeat
until it is made: so another controller continues where this one ended. The cost depends on the partitions of the broker.
Source: KIP-858, "Handling of log directory failures"; `handleDirectoriesOffline` of a stock controller.
"""

from collections.abc import Collection
from uuid import UUID

from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_repair import MAX_RECORDS
from quorum_node.controller.partition_rules import Judge
from quorum_node.controller.view import View
from quorum_node.records.metadata import MetadataMessage


def remove_replicas_in(
    view: View, broker_id: int, directories: Collection[UUID]
) -> tuple[tuple[MetadataMessage, ...], bool]:
    """Changes that remove a broker's replicas in these directories from ISRs; True when no partition is left."""
    judge = Judge(view)
    records: list[MetadataMessage] = []
    for (number, partition_id), now in view.image.topics.partitions_of(broker_id):
        if now.directory(broker_id) not in directories:
            continue
        if broker_id not in now.isr and broker_id != now.leader:
            continue
        if len(records) == MAX_RECORDS:
            return tuple(records), False
        topic = view.image.topics.by_id[number]
        record = change_partition(
            topic.topic_id,
            partition_id,
            now,
            Wanted(isr=tuple(each for each in now.isr if each != broker_id)),
            judge.circumstances(topic.name, now, gone=broker_id),
        )
        if record is not None:
            records.append(record)
    return tuple(records), True
