"""Which replicas of a partition can be used, by the metadata: of live brokers, and in log directories that are online (KIP-858)."""

from collections.abc import Collection, Mapping
from uuid import UUID

from quorum_node.controller.directory_ids import is_online
from quorum_node.image.brokers import BrokersImage
from quorum_node.image.partition import Partition


def active_brokers(brokers: BrokersImage) -> dict[int, int]:
    """Broker id → broker epoch of all brokers that may be in an ISR."""
    return {
        each.broker_id: each.broker_epoch
        for each in brokers.by_id.values()
        if not each.fenced and not each.in_controlled_shutdown
    }


def log_directories(brokers: BrokersImage) -> dict[int, tuple[UUID, ...]]:
    """The directories of all brokers that are online."""
    return {each.broker_id: each.log_dirs for each in brokers.by_id.values()}


def eligible_brokers(
    partition: Partition, brokers: BrokersImage, active: Mapping[int, int]
) -> Mapping[int, int]:
    """Of the active brokers those whose replica can join the ISR.

    A replica in a failed directory does not fetch. A leader that waited for it, as a stock one does, would not commit a record for
    replica.lag.time.max.ms.
    """
    offline = offline_replicas(brokers, partition, active)
    if not any(each in active for each in offline):
        return active
    return {key: epoch for key, epoch in active.items() if key not in offline}


def offline_replicas(
    brokers: BrokersImage, partition: Partition, live: Collection[int]
) -> tuple[int, ...]:
    """The replicas of brokers that are not `live`, or in directories that are offline."""
    return tuple(
        each
        for each, directory in zip(partition.replicas, partition.directories, strict=True)
        if each not in live or not is_online(directory, _directories(brokers, each))
    )


def _directories(brokers: BrokersImage, broker_id: int) -> Collection[UUID]:
    broker = brokers.get(broker_id)
    return () if broker is None else broker.log_dirs
