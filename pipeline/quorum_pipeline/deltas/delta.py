"""The effect of a run of records on any state: what it sets, what it changes, and what it requires. PURE.

Owns replaying records onto an unknown state (`replay`), and composing two deltas (`then`). Composition is
associative, so a log may be split anywhere and its parts combined in any grouping of neighbours. Everything that
depends on the state is kept per key, with a size independent of the number of records. The rules are those of
`quorum_node.image`; a contradiction is reported with the offset at which a node would find it. Offsets order the
events of one name: removing a topic removes its configs, although the record contains only the id. Source: KIP-631,
"Record formats"; KIP-966 (ClearElr).
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from quorum_node.image.partition import Partition, normal
from quorum_node.image.resource_types import TOPIC
from quorum_node.image.topics_changes import without_elr
from quorum_node.records import metadata as md
from quorum_pipeline.deltas.broker_delta import BrokerDelta
from quorum_pipeline.deltas.contradiction import Contradiction, first_of
from quorum_pipeline.deltas.partition_change import (
    CLEARED,
    Change,
    applied,
    change_reported_at,
    composed,
)

ConfigName = tuple[int, str, str]
"""Type and name of the resource, name of the config."""
Put = tuple[Any, ...]
"""Kind of record and what identifies it: the last one of a key is all that counts."""
_WRONG_COUNT = "directories for another number of replicas"


@dataclass(frozen=True, slots=True)
class Incarnation:
    """A topic from its TopicRecord at `offset` until it is removed or created again."""

    offset: int
    record: md.TopicRecord


@dataclass(frozen=True, slots=True)
class TopicDelta:
    """The history of a topic id in the delta. The topic that existed before the delta was removed.

    `removed_at`: offset of the record that removed it; None if another topic took its id.
    """

    removed_at: int | None
    live: Incarnation | None


@dataclass(slots=True)
class Delta:
    """The delta of topics, partitions, names, configs, brokers, and of records of which only the last one of a key counts.

    An empty one is the delta of no records. `replay…` and `then` change it in place.
    """

    topics: dict[int, TopicDelta] = field(default_factory=dict)
    partitions: dict[int, dict[int, Partition | Change]] = field(default_factory=dict)
    """Partitions of the current topic: complete, or (only if it existed before the delta) changes."""
    named: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Name → offset and id of the topic that took it last."""
    removed_names: dict[str, int] = field(default_factory=dict)
    """Name → offset of the last removal of a topic with this name; earlier configs are removed."""
    cleared: set[int] = field(default_factory=set)
    """Ids of earlier topics whose partitions have lost their eligible leader replicas."""
    all_cleared: bool = False
    """Whether all earlier topics have lost them."""
    configs: dict[ConfigName, tuple[int, str | None]] = field(default_factory=dict)
    """Offset and value of the last record."""
    brokers: dict[int, BrokerDelta] = field(default_factory=dict)
    puts: dict[Put, md.MetadataMessage | None] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    needs_topics: dict[int, int] = field(default_factory=dict)
    """Topics that must exist before the delta, with the offset of the first record that requires it."""
    needs_partitions: dict[tuple[int, int], int] = field(default_factory=dict)
    required: dict[tuple[int, int], Change] = field(default_factory=dict)
    """Requirements of changes on earlier partitions that were removed or written again since."""
    wrong: Contradiction | None = None
    """The first contradiction that is certain for any earlier state."""

    def fail(self, offset: int | None, reason: str) -> None:
        """Note the offset of a record that no state allows; None: there is no contradiction."""
        if offset is not None:
            self.wrong = first_of(self.wrong, Contradiction(offset, reason))

    # -- records

    def replay_topic(self, offset: int, record: md.TopicRecord) -> None:
        """Create a topic. An existing one with this id is replaced, and its configs are kept."""
        number = record.topic_id.int
        before = self.topics.get(number)
        live = Incarnation(offset, record)
        self.topics[number] = TopicDelta(None if before is None else before.removed_at, live)
        self._drop_partitions(number)
        self.named[record.name] = (offset, number)

    def replay_remove(self, offset: int, record: md.RemoveTopicRecord) -> None:
        """Remove a topic with its partitions and, once its name is known, its configs."""
        number = record.topic_id.int
        before = self.topics.get(number)
        if before is None:
            self.topics[number] = TopicDelta(offset, None)
        elif before.live is not None:
            self._remove_name(before.live.record.name, offset)
            self.topics[number] = TopicDelta(before.removed_at, None)
        self._drop_partitions(number)

    def replay_partition(self, offset: int, record: md.PartitionRecord) -> None:
        """Create or replace a partition."""
        number = record.topic_id.int
        topic = self.topics.get(number)
        if topic is None:
            self.needs_topics.setdefault(number, offset)
        elif topic.live is None:
            self.fail(offset, _no_topic(number))
            return
        try:
            new = normal(record)
        except ValueError as error:
            self.fail(offset, str(error))
            return
        self._set(number, record.partition_id, new)

    def replay_change(self, offset: int, number: int, partition_id: int, change: Change) -> None:
        """Change some fields of a partition."""
        ops = self.partitions.get(number)
        before = None if ops is None else ops.get(partition_id)
        if before is None and number in self.topics:
            self.fail(offset, _no_partition(number, partition_id))
            return
        if not isinstance(before, Partition):
            self.needs_partitions.setdefault((number, partition_id), offset)
        self._change(number, partition_id, change)

    def clear_all_elr(self) -> None:
        """Clear the eligible leader replicas of all topics."""
        for number in self.partitions:
            self._clear_partitions(number)
        self.all_cleared = True
        self.cleared.clear()

    def clear_elr(self, number: int) -> None:
        """Clear the eligible leader replicas of one existing topic."""
        self._clear_partitions(number)
        if number not in self.topics and not self.all_cleared:
            self.cleared.add(number)

    def holder(self, name: str) -> int | None:
        """Return the id of the topic with this name, if a record of this delta has set it."""
        offset, number = self.named[name]
        live = self.topics[number].live
        return number if live is not None and live.offset == offset else None

    # -- composing

    def then(self, other: "Delta") -> "Delta":
        """Append `other` in place; `other` must not be used any more."""
        self._check_needs(other)
        for number, topic in other.topics.items():
            self._replace_topic(number, topic)
        self._take_partitions(other)
        for name, offset in other.removed_names.items():
            self._remove_name(name, offset)
        self.named.update(other.named)
        self.configs.update(other.configs)
        for broker_id, broker in other.brokers.items():
            before = self.brokers.get(broker_id)
            self.brokers[broker_id] = broker if before is None else before.then(broker)
        self.puts.update(other.puts)
        self.left_out |= other.left_out
        self.wrong = first_of(self.wrong, other.wrong)
        return self

    def reported_at(self, offset: int) -> "Delta":
        """Convert it to the delta of a node that replays all records at `offset`: contradictions are reported there.

        The order of its content is kept.
        """
        if self.wrong is not None:
            self.wrong = Contradiction(offset, self.wrong.reason)
        self.needs_topics = dict.fromkeys(self.needs_topics, offset)
        self.needs_partitions = dict.fromkeys(self.needs_partitions, offset)
        for ops in self.partitions.values():
            for partition_id, op in ops.items():
                if isinstance(op, Change):
                    ops[partition_id] = change_reported_at(op, offset)
        self.required = {
            key: change_reported_at(each, offset) for key, each in self.required.items()
        }
        return self

    def finish(self) -> None:
        """Complete the delta at the beginning of the history: unmet requirements are contradictions."""
        for number, offset in self.needs_topics.items():
            self.fail(offset, _no_topic(number))
        for (number, partition_id), offset in self.needs_partitions.items():
            self.fail(offset, _no_partition(number, partition_id))

    def _check_needs(self, other: "Delta") -> None:
        for number, offset in other.needs_topics.items():
            topic = self.topics.get(number)
            if topic is None:
                self.needs_topics.setdefault(number, offset)
            elif topic.live is None:
                self.fail(offset, _no_topic(number))
        for key, offset in other.needs_partitions.items():
            number, partition_id = key
            if isinstance(self.partitions.get(number, {}).get(partition_id), Partition):
                continue
            if number in self.topics:
                self.fail(offset, _no_partition(number, partition_id))
            else:
                self.needs_partitions.setdefault(key, offset)
        for (number, partition_id), required in other.required.items():
            self._require(number, partition_id, required)

    def _replace_topic(self, number: int, topic: TopicDelta) -> None:
        before = self.topics.get(number)
        if before is not None:
            if before.live is not None and topic.removed_at is not None:
                self._remove_name(before.live.record.name, topic.removed_at)
            topic = TopicDelta(before.removed_at, topic.live)
        self.topics[number] = topic
        self._drop_partitions(number)

    def _take_partitions(self, other: "Delta") -> None:
        """Drop partitions of topics that `other` has removed or created."""
        for number in self.partitions if other.all_cleared else other.cleared:
            self._clear_partitions(number, other.partitions.get(number, {}))
        for number, ops in other.partitions.items():
            mine = self.partitions.setdefault(number, {})
            for partition_id, op in ops.items():
                if isinstance(op, Partition):
                    self._set(number, partition_id, op)
                elif partition_id in mine or number not in self.topics:
                    self._change(number, partition_id, op)
        if other.all_cleared:
            self.all_cleared = True
            self.cleared.clear()
        elif not self.all_cleared:
            self.cleared |= {each for each in other.cleared if each not in self.topics}

    def _change(self, number: int, partition_id: int, change: Change) -> None:
        ops = self.partitions.setdefault(number, {})
        before = ops.get(partition_id)
        if before is None:
            if not self.all_cleared and number not in self.cleared:
                ops[partition_id] = change
                return
            before = CLEARED
        after: Partition | Change
        if isinstance(before, Partition):
            after, wrong = applied(change, before)
        else:
            after, wrong = composed(before, change)
        ops[partition_id] = after
        self.fail(wrong, _WRONG_COUNT)

    def _clear_partitions(self, number: int, but: Any = ()) -> None:
        ops = self.partitions.get(number, {})
        for partition_id, op in ops.items():
            if partition_id in but:
                continue
            if isinstance(op, Change):
                ops[partition_id], _ = composed(op, CLEARED)
            elif op.eligible_leader_replicas or op.last_known_elr:
                ops[partition_id] = without_elr(op)

    def _set(self, number: int, partition_id: int, partition: Partition) -> None:
        ops = self.partitions.setdefault(number, {})
        self._keep_requirements(number, partition_id, ops.get(partition_id))
        ops[partition_id] = partition

    def _require(self, number: int, partition_id: int, required: Change) -> None:
        """Keep the requirements on a partition that is removed or written again afterwards."""
        before = self.partitions.get(number, {}).get(partition_id)
        if isinstance(before, Partition):
            self.fail(applied(required, before)[1], _WRONG_COUNT)
        elif before is not None:
            self.partitions[number][partition_id], wrong = composed(before, required)
            self.fail(wrong, _WRONG_COUNT)
        elif number not in self.topics:
            self.required[number, partition_id] = required

    def _keep_requirements(
        self, number: int, partition_id: int, op: Partition | Change | None
    ) -> None:
        required = op.required() if isinstance(op, Change) else None
        if required is not None:
            self.required[number, partition_id] = required

    def _drop_partitions(self, number: int) -> None:
        for partition_id, op in self.partitions.pop(number, {}).items():
            self._keep_requirements(number, partition_id, op)
        self.cleared.discard(number)

    def _remove_name(self, name: str, offset: int) -> None:
        self.removed_names[name] = max(offset, self.removed_names.get(name, offset))


def survives(name: ConfigName, offset: int, removed_names: dict[str, int]) -> bool:
    """Whether a config set at `offset` still exists: it is not a topic's config, or the topic was not removed later."""
    kind, resource_name, _ = name
    return kind != TOPIC or offset > removed_names.get(resource_name, offset - 1)


def _no_topic(number: int) -> str:
    return f"a partition of topic {UUID(int=number)}, which does not exist"


def _no_partition(number: int, partition_id: int) -> str:
    return f"a change of partition {UUID(int=number)}-{partition_id}, which does not exist"
