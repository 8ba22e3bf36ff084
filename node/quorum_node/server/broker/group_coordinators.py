"""The group coordinators of this broker: one for each partition of `__consumer_offsets` that it leads.

Owns when a coordinator starts and stops: it starts with the leadership of its partition, after the log was read, and stops when the
leadership ends. Requests that wait at that time are answered with an error that makes the client look up the coordinator again. Does not
depend on the wire or on the rules of groups.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from quorum_node.coordinator.early_errors import early_error
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.forgetting import Exists
from quorum_node.coordinator.group_table import GroupTable
from quorum_node.coordinator.outputs import Append, Output, Reply
from quorum_node.coordinator.requests import Answer, Request, refused
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.coordinator.shard import GroupShard
from quorum_node.image.topics import TopicsImage
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.directory_threads import TURN_SECONDS
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.group_log import GroupLog, UnreadableLog, in_turns, now
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from quorum_node.server.pieces import is_done
from quorum_node.storage.errors import DiskFull, StorageFailure

_TICK_SECONDS = 0.1
_PAUSE_SECONDS = 0.01
"""Until the next turn, if there is more to do."""

Answered = Callable[[Answer], None]


class LedGroups:
    """The groups of one partition, as long as this broker leads it. That may be for several leader epochs, between which no other replica led."""

    def __init__(self, replica: HostedReplica, settings: GroupSettings, timeout_ms: int) -> None:
        self.replica = replica
        self.led_since_epoch = replica.led_since_epoch
        self.log = GroupLog(replica, timeout_ms)
        self.table = GroupTable()
        self._shard = GroupShard(self.table, settings)
        self._is_read = self.is_ready = False
        self._waiting: dict[int, tuple[Request, Answered]] = {}
        self._outputs: deque[Output] = deque()
        self._is_carrying = False
        self._is_over = False

    async def load(self, exists: Exists) -> int:
        """Read the log, and make the groups ready; then requests are served. Returns the size of the log in bytes.

        If the leadership ends meanwhile, no more is read: other coordinators wait, and the log may be truncated. Raises UnreadableLog, StorageFailure, DiskFull.
        """
        size_bytes = await self.log.load(self.table)
        if self._is_over:
            return size_bytes
        self._is_read = True
        await in_turns(self._shard.begin(now()))
        # A topic may have been deleted while the log was read, or before, when the coordinator of that time did not come to it.
        self._shard.topics_missing(exists)
        self.is_ready = True
        return size_bytes

    def ask(self, request: Request, answered: Answered) -> None:
        """Handle a request. `answered` is called once, possibly before this returns."""
        assert self.is_ready, "the log was read"
        self._waiting[request.request_id] = request, answered
        self._carry_out(self._shard.step(request, now()))

    def expire(self) -> Iterator[None]:
        """Handle expired timers, those of one group after the other."""
        while (
            self.is_ready
            and not self._is_over
            and (outputs := self._shard.expire(now())) is not None
        ):
            self._carry_out(outputs)
            yield

    def clean(self) -> bool:
        """Do a piece of the removals that are due. False if there is none."""
        outputs = self._shard.clean(now()) if self.is_ready and not self._is_over else None
        if outputs is not None:
            self._carry_out(outputs)
        return outputs is not None

    def marker_written(self, producer_id: int, *, commit: bool) -> None:
        """Apply the end of a transaction. Ignored while the log is being read, because the log contains the marker as well."""
        if self._is_read:
            self._shard.marker_written(producer_id, commit=commit)

    def topics_deleted(self, topics: Mapping[str, UUID]) -> None:
        """Drop the offsets of deleted topics (name → id)."""
        if self.is_ready:
            self._carry_out(self._shard.topics_deleted(topics))

    def end(self, error: GroupError) -> None:
        """Answer all waiting requests with `error`, because this leadership of the partition has ended."""
        self._is_over = True
        self.log.close()
        waiting, self._waiting = self._waiting, {}
        for request, answered in waiting.values():
            answered(refused(request, error))

    def _carry_out(self, outputs: list[Output]) -> None:
        """Carry out outputs in order, also if an append is stored at once and produces more outputs."""
        self._outputs.extend(outputs)
        if self._is_carrying:
            return
        self._is_carrying = True
        try:
            while self._outputs and not self._is_over:
                self._carry_out_one(self._outputs.popleft())
        finally:
            self._is_carrying = False

    def _carry_out_one(self, output: Output) -> None:
        if isinstance(output, Reply):
            _, answered = self._waiting.pop(output.request_id)
            answered(output.answer)
        else:
            self._append(output)

    def _append(self, output: Append) -> None:
        def stored(error: GroupError) -> None:
            if not self._is_over:
                self._carry_out(self._shard.appended(output.append_id, error, now()))

        self.log.append(output.records, stored)


class GroupCoordinators:
    """The coordinators of all led partitions."""

    def __init__(
        self,
        replicas: AssignedReplicas,
        settings: GroupSettings,
        commit_timeout_ms: int,
        events: BrokerEvents,
    ) -> None:
        self._replicas = replicas
        self._settings = settings
        self._commit_timeout_ms = commit_timeout_ms
        self._events = events
        self._led: dict[int, LedGroups] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._is_loading = asyncio.Lock()
        self._topics: TopicsImage | None = None
        self._next_request_id = 1
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(_TICK_SECONDS, self._turn)

    # -- the image

    def image_changed(self) -> None:
        """Start and stop coordinators after the replicas have applied another image."""
        topics = self._replicas.image.topics
        if topics is self._topics:
            return
        before, self._topics = self._topics, topics
        self._look_at_leaderships(topics)
        if before is not None and before.ids is not topics.ids:
            self._look_at_deletions(before, topics)

    def replicas_changed(self) -> None:
        """Stop the coordinators of replicas whose log directory failed."""
        self._look_at_leaderships(self._replicas.image.topics)

    def close(self) -> None:
        """Stop all coordinators."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._loading:
            task.cancel()
        for partition_id in list(self._led):
            self._end(partition_id)

    def _look_at_leaderships(self, topics: TopicsImage) -> None:
        topic = topics.named(OFFSETS_TOPIC)
        replicas = {
            number: replica
            for number in (topic.partitions if topic is not None else ())
            if topic is not None
            and (replica := self._replicas.replica(topic.topic_id, number)) is not None
            and replica.is_leader
        }
        for number, led in list(self._led.items()):
            replica = replicas.get(number)
            if replica is not led.replica or replica.led_since_epoch != led.led_since_epoch:
                self._end(number)
        for number, replica in replicas.items():
            if number not in self._led:
                self._begin(number, replica)

    def _look_at_deletions(self, before: TopicsImage, topics: TopicsImage) -> None:
        """Drop the offsets of deleted topics, also of those recreated under the same name, where an offset refers to another record."""
        gone = {
            name: topic.topic_id
            for name, number in before.ids.items()
            if topics.ids.get(name) != number and (topic := before.named(name)) is not None
        }
        if gone:
            for led in self._led.values():
                led.topics_deleted(gone)

    def _begin(self, number: int, replica: HostedReplica) -> None:
        led = self._led[number] = LedGroups(replica, self._settings, self._commit_timeout_ms)
        task = self._loop.create_task(self._load(number, led))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    def _end(self, number: int) -> None:
        self._led.pop(number).end(GroupError.NOT_COORDINATOR)

    async def _load(self, number: int, led: LedGroups) -> None:
        try:
            # One after the other: after the failure of a broker, dozens of them would take all turns of the loop.
            async with self._is_loading:
                if self._led.get(number) is not led:
                    return
                size_bytes = await led.load(self._exists)
        except (StorageFailure, DiskFull):
            led.replica.fail()
            return
        except UnreadableLog as error:
            if self._led.get(number) is not led:
                return  # it may have been truncated while it was read
            # Groups of an unreadable log stay unavailable: without the unread offsets, consumers would resume elsewhere.
            self._events.unreadable_groups(str(error))
            return
        if self._led.get(number) is led and led.table.groups:
            self._events.coordinates(number, len(led.table.groups), size_bytes)

    def _exists(self, name: str, topic_id: UUID | None) -> bool:
        topics = self._replicas.image.topics
        return (topics.named(name) if topic_id is None else topics.get(topic_id)) is not None

    def _turn(self) -> None:
        """Do what is due, for a short time. What is left follows soon, so that requests are served meanwhile."""
        has_ended = is_done(self._due(), TURN_SECONDS)
        seconds = _TICK_SECONDS if has_ended else _PAUSE_SECONDS
        self._timer = self._loop.call_later(seconds, self._turn)

    def _due(self) -> Iterator[None]:
        """First the timers, also if removals have been under way for long. These take turns between the partitions."""
        for led in tuple(self._led.values()):
            yield from led.expire()
        cleaned = tuple(self._led.values())
        while cleaned := tuple(led for led in cleaned if led.clean()):
            yield

    # -- requests

    def new_id(self) -> int:
        """A new id for a request."""
        self._next_request_id += 1
        return self._next_request_id

    def led(self) -> Iterator[LedGroups]:
        """All led partitions, loaded or not."""
        return iter(self._led.values())

    def marker_written(self, partition_id: int, producer_id: int, *, commit: bool) -> None:
        """Apply the end of a transaction in a partition of __consumer_offsets."""
        led = self._led.get(partition_id)
        if led is not None:
            led.marker_written(producer_id, commit=commit)

    def of(self, group_id: str) -> LedGroups | GroupError:
        """The coordinator of the group, if it is this broker and its log is loaded; else the error."""
        topic = self._replicas.image.topics.named(OFFSETS_TOPIC)
        if topic is None:
            return GroupError.NOT_COORDINATOR
        led = self._led.get(partition_of(group_id, len(topic.partitions)))
        if led is None or not led.replica.is_leader:
            return GroupError.NOT_COORDINATOR
        return GroupError.COORDINATOR_LOAD_IN_PROGRESS if not led.is_ready else led

    def ask(self, request: Request, answered: Answered) -> None:
        """Pass a request to the coordinator of its group. `answered` is called once, possibly before this returns."""
        error = early_error(request, self._settings)
        led = self.of(request.group_id) if error is GroupError.NONE else error
        if isinstance(led, GroupError):
            answered(refused(request, led))
        else:
            led.ask(request, answered)


def partition_of(key: str, partitions: int) -> int:
    """The partition of a group or transactional id, as in Kafka: by Java's hash of its UTF-16 code units."""
    units = key.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
