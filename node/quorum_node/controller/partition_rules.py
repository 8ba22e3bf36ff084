"""Conditions of partition changes as of one view: active brokers, directories of new replicas,
permitted elections. PURE.

Owns the mapping from a view to `Circumstances`. Must not know any request.
"""

from functools import lru_cache
from uuid import UUID

from quorum_node.controller.directory_ids import default_directory, is_online
from quorum_node.controller.feature_levels import ELIGIBLE_LEADER_REPLICAS
from quorum_node.controller.partition_change import ChangeRules, Circumstances
from quorum_node.controller.partition_leader import Election
from quorum_node.controller.topic_settings import may_lose_data, min_insync_replicas
from quorum_node.controller.view import View
from quorum_node.image.partition import Partition
from quorum_node.records.metadata import UNASSIGNED
from quorum_node.records.metadata.metadata_version import (
    DIRECTORIES_LEVEL,
    ISR_SHRINK_KEEPS_LEADER_EPOCH_LEVEL,
)
from quorum_node.schema.source import SHARED_ARRAYS


def change_rules(view: View) -> ChangeRules:
    """Requirements of the finalized features."""
    level = view.image.features.metadata_version
    return ChangeRules(
        directories=level >= DIRECTORIES_LEVEL,
        eligible_leader_replicas=view.image.features.level(ELIGIBLE_LEADER_REPLICAS) > 0,
        bump_on_shrink=level < ISR_SHRINK_KEEPS_LEADER_EPOCH_LEVEL,
    )


def directory_of_new_replica(view: View, broker_id: int) -> UUID:
    """Directory of a new replica on a broker."""
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED
    cordoned = broker.cordoned_log_dirs or ()
    return default_directory([each for each in broker.log_dirs if each not in cordoned])


def directories_of_new_replicas(view: View, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    """The same for a new partition; empty while directories have no ids."""
    if view.image.features.metadata_version < DIRECTORIES_LEVEL:
        return ()
    return _shared(tuple([directory_of_new_replica(view, each) for each in replicas]))


@lru_cache(maxsize=SHARED_ARRAYS)
def _shared(directories: tuple[UUID, ...]) -> tuple[UUID, ...]:
    """One shared object for equal values of many partitions, as in the decoder."""
    return directories


class Judge:
    """Computes the conditions of many partitions as of one view; shared values are looked up once."""

    __slots__ = ("_active", "_active_of", "_elections", "_min_isrs", "_rules", "_view")

    def __init__(self, view: View) -> None:
        self._view = view
        self._rules = change_rules(view)
        self._elections: dict[str, Election] = {}
        self._min_isrs: dict[str, int] = {}
        self._active: dict[int, bool] = {}
        self._active_of: dict[tuple[int, ...], tuple[int, ...]] = {}

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker can lead and be in an ISR."""
        found = self._active.get(broker_id)
        if found is None:
            found = self._active[broker_id] = self._view.image.brokers.is_active(broker_id)
        return found

    def active_of(self, isr: tuple[int, ...]) -> tuple[int, ...]:
        """The active members of an ISR. Equal results of many partitions share one object."""
        found = self._active_of.get(isr)
        if found is None:
            found = tuple([each for each in isr if self.is_active(each)])
            self._active_of[isr] = found
        return found

    def circumstances(
        self,
        topic: str,
        partition: Partition,
        election: Election | None = None,
        *,
        gone: int = -1,
    ) -> Circumstances:
        """Conditions of a change of this partition.

        Default of `election`: keep the partition online, with data loss only if the topic's
        settings permit it. `gone`: a broker that is being removed and can't lead any more.
        """
        by_id = self._view.image.brokers.by_id

        def is_acceptable(replica: int) -> bool:
            if replica == gone or not self.is_active(replica):
                return False
            directory = partition.directory(replica)
            return directory is None or is_online(directory, by_id[replica].log_dirs)

        return Circumstances(
            is_acceptable=is_acceptable,
            default_directory=self._default_directory,
            election=election or self._election(topic),
            min_isr=self._min_isr(topic) if self._rules.eligible_leader_replicas else 1,
            rules=self._rules,
        )

    def _min_isr(self, topic: str) -> int:
        """`min.insync.replicas` of a topic, at most its replication factor (that of partition 0, as
        shipped).
        """
        found = self._min_isrs.get(topic)
        if found is None:
            found = min_insync_replicas(self._view, topic)
            known = self._view.image.topics.named(topic)
            first = None if known is None else known.partitions.get(0)
            if first is not None:
                found = min(found, len(first.replicas))
            self._min_isrs[topic] = found
        return found

    def _election(self, topic: str) -> Election:
        found = self._elections.get(topic)
        if found is None:
            risky = may_lose_data(self._view, topic)
            found = self._elections[topic] = Election.UNCLEAN if risky else Election.ONLINE
        return found

    def _default_directory(self, replica: int) -> UUID:
        return directory_of_new_replica(self._view, replica)


def circumstances(
    view: View,
    topic: str,
    partition: Partition,
    election: Election | None = None,
    *,
    gone: int = -1,
) -> Circumstances:
    """Conditions of one partition; see `Judge`."""
    return Judge(view).circumstances(topic, partition, election, gone=gone)
