"""The log directory of each local replica (KIP-858). PURE.

Owns the choice of a directory, and the reason not to create a log. Must not know paths or disks.

A log that exists stays where it is. A missing log is created, unless it may be in a directory that is offline: an empty log in its place
would be a member of the ISR that has lost acknowledged records. Stock brokers create it if the metadata names no directory yet
(`Partition.createLogInAssignedDirectoryId`). Here a member of the ISR, or an eligible leader, is not created then.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from quorum_node.broker.assignments import FoundLog
from quorum_node.image.partition import Partition
from quorum_node.image.topics import TopicsImage
from quorum_node.records.metadata import LOST, MIGRATING, UNASSIGNED

_NOT_NAMED = (UNASSIGNED, MIGRATING)


class AmbiguousReplica(Exception):
    """Two directories have a log of the same replica, and the metadata names neither."""


@dataclass(frozen=True, slots=True)
class Offline:
    """The replica stays offline. `directory_id`: of the directory that is reported for it to the controller."""

    directory_id: UUID


def assigned_directory(broker_id: int, partition: Partition) -> UUID:
    """The directory of this broker's replica in the metadata."""
    return partition.directories[partition.replicas.index(broker_id)]


def directory_of_replica(
    broker_id: int,
    partition: Partition,
    found: UUID | None,
    online: Mapping[UUID, int],
    *,
    is_new: bool,
    has_offline: bool,
    preferred: UUID | None = None,
    cordoned: Collection[UUID] = (),
) -> UUID | Offline:
    """The directory in which the log is opened or created.

    `found`: the online directory that has the log, if any. `online`: number of logs in each online directory. `is_new`: the replica was
    assigned during this run of the broker, so no directory has its log. `preferred`: the administrator's choice for a new log. `cordoned`: directories
    that get no new log unless the metadata names them, or all are (KIP-1066).
    """
    if found is not None:
        return found
    assigned = assigned_directory(broker_id, partition)
    if has_offline and not is_new and _may_have_records(broker_id, partition):
        return Offline(LOST if assigned in online or assigned in _NOT_NAMED else assigned)
    if assigned in online:
        return assigned
    if has_offline and assigned not in _NOT_NAMED:
        return Offline(assigned)
    if preferred is not None and preferred in online and preferred not in cordoned:
        return preferred
    return min(online, key=lambda each: (each in cordoned, online[each]))


def superseded_logs(
    broker_id: int, found: Iterable[FoundLog], image: TopicsImage
) -> list[FoundLog]:
    """Logs of replicas whose current log is in another directory.

    A replica may have two after a crash at the end of a move: then the copy is the current one. It may also have two after its directory
    failed, the partition was assigned again, and the directory was repaired: then the metadata names the current one. Raises AmbiguousReplica.
    """
    by_replica: dict[tuple[str, int], list[FoundLog]] = {}
    for each in found:
        by_replica.setdefault((each.topic_name, each.partition_id), []).append(each)
    superseded: list[FoundLog] = []
    for (name, number), logs in by_replica.items():
        holders = {each.directory_id for each in logs}
        moved = [each for each in logs if each.moving_to is not None and each.moving_to in holders]
        superseded += moved
        left = [each for each in logs if each not in moved]
        if len(left) == 1:
            continue
        topic = image.named(name)
        assert topic is not None, "strays are set aside before"
        assigned = assigned_directory(broker_id, topic.partitions[number])
        if all(each.directory_id != assigned for each in left):
            raise AmbiguousReplica(f"{name}-{number}")
        superseded += [each for each in left if each.directory_id != assigned]
    return superseded


def possibly_superseded(
    found: Iterable[FoundLog], online: Collection[UUID], *, has_offline: bool
) -> list[FoundLog]:
    """Logs whose replica may have its current log in a directory that is offline: a move was about to end when the process died."""
    return [
        each
        for each in found
        if has_offline and each.moving_to is not None and each.moving_to not in online
    ]


def lacks_directory(broker_id: int, image: TopicsImage, online: Collection[UUID]) -> bool:
    """Whether a replica of this broker is in a directory that it does not have, such as one that was removed from log.dirs.

    Even after a clean stop the broker can't claim then that its replicas are complete.
    """
    return any(
        directory not in online and not _is_reserved(directory)
        for topic in image.topics_of(broker_id)
        for partition in topic.partitions.values()
        if broker_id in partition.replicas
        for directory in (assigned_directory(broker_id, partition),)
    )


def _is_reserved(directory: UUID) -> bool:
    return directory in _NOT_NAMED or directory == LOST


def _may_have_records(broker_id: int, partition: Partition) -> bool:
    """Whether the controller may elect this replica, because it relies on the records of its log."""
    eligible = (*(partition.eligible_leader_replicas or ()), *(partition.last_known_elr or ()))
    return broker_id in partition.isr or broker_id in eligible
