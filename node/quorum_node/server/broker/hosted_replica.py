"""A replica of one partition on this broker: the pure core with its log, its fetcher and its waiting requests.

Owns the order in which events are handled and outputs are carried out. Does not depend on the wire. The decisions are
made by the core (`quorum_node.broker`). Everything runs on the loop's thread.
"""

from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Protocol
from uuid import UUID

from quorum_node.broker import outputs as out
from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    ConsumerFetched,
    Event,
    FollowerFetched,
    Produced,
    SettingsChanged,
    StartOffsetMoved,
    StorageFailed,
    Ticked,
    Truncated,
    Written,
)
from quorum_node.broker.leader import Leader
from quorum_node.broker.partition import PartitionReplica
from quorum_node.broker.produced_batch import BatchLimits, place
from quorum_node.broker.producers import NO_GUARD
from quorum_node.broker.replication_quota import NOT_THROTTLED, Throttled
from quorum_node.broker.settings import PartitionSettings
from quorum_node.broker.waiting_produces import ACKS_ALL
from quorum_node.image.topics import PartitionKey
from quorum_node.server.broker.data_log import DataLog, OffsetSearch, TimedOffset
from quorum_node.server.partition.port import clock_ms
from quorum_node.storage.broker.errors import VoidSearch
from quorum_node.storage.broker.read_batches import ReadBatches
from quorum_node.storage.errors import DiskFull, StorageFailure

FetchAnswer = out.ServeFetch | out.ReportDivergence | out.RefuseFetch
ProduceDone = Callable[[BrokerError, int], None]
"""(error, base offset or -1); called once, possibly before the call returns."""
Searching = Generator[None, None, TimedOffset | BrokerError | None]
"""A search in the log, which yields after each short piece."""


class ReplicaPort(Protocol):
    """The replica's requests to the broker that hosts it."""

    def start_fetching(self, replica: "HostedReplica", leader_id: int) -> None:
        """Fetch this replica only from the broker `leader_id` from now on."""

    def stop_fetching(self, replica: "HostedReplica") -> None:
        """Stop fetching."""

    def may_fetch(self, replica: "HostedReplica") -> None:
        """Fetch if possible: the replica's fetch position may have changed."""

    def ask_range(self, replica: "HostedReplica", output: out.AskRange) -> None:
        """Ask the leader for its start and end offsets. RangeAnswered follows; if it does not, the core asks again."""

    def propose_isr(self, replica: "HostedReplica", output: out.ProposeIsr) -> None:
        """Propose an ISR to the active controller. IsrTaken or IsrRefused follows."""

    def sync(self, replica: "HostedReplica", *, again: bool = False) -> None:
        """Sync the log on another thread, unless a sync of it is running. `synced` of the replica follows, or the failure of its directory.

        `again`: also after the one that is running, which may have begun before the last append.
        """

    def write_epochs(self, replica: "HostedReplica") -> None:
        """Call `write_epochs` of the log on another thread."""

    def maintain_soon(self) -> None:
        """Store the start offset, which has advanced, soon, so that it survives a crash."""

    def delete_log(self, replica: "HostedReplica") -> None:
        """Delete the log: the partition was deleted."""


class HostedReplica:
    """A replica of one partition. `topic_name`: the topic's name when the replica was created; topics are never renamed.

    `directory_id`: of the log directory that contains the log. A failure of the log takes this whole directory offline.
    """

    def __init__(
        self,
        key: PartitionKey,
        topic_name: str,
        broker_id: int,
        directory_id: UUID,
        log: DataLog,
        port: ReplicaPort,
        settings: PartitionSettings,
        limits: BatchLimits,
        throttled: Throttled = NOT_THROTTLED,
    ) -> None:
        self.key = key
        self.topic_name = topic_name
        self.directory_id = directory_id
        self.core = PartitionReplica(broker_id, log.opened(), settings)
        self.log = log
        self.settings = settings
        self.limits = limits
        self.throttled = throttled
        self._port = port
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._producers: dict[int, ProduceDone] = {}
        self._fetched: FetchAnswer | None = None
        self._next_request_id = 1
        self._watchers: set[Callable[[], None]] = set()
        self._has_failed = False

    # -- queries

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads the partition, according to the metadata that it has applied."""
        return isinstance(self.core.role, Leader)

    @property
    def led_since_epoch(self) -> int | None:
        """The leader epoch in which this replica became the leader; None if it is not. Later epochs may name the same leader."""
        role = self.core.role
        return role.first_epoch if isinstance(role, Leader) else None

    def refuses_producers(self, acks: int) -> BrokerError:
        """The error for any batch with these acks, independent of its content; NONE if batches are accepted."""
        role = self.core.role
        if self._has_failed:
            return BrokerError.KAFKA_STORAGE_ERROR
        if not isinstance(role, Leader):
            return BrokerError.NOT_LEADER_OR_FOLLOWER
        if acks == ACKS_ALL and role.is_under_min_isr:
            return BrokerError.NOT_ENOUGH_REPLICAS
        return BrokerError.NONE

    @property
    def has_failed(self) -> bool:
        """Whether the disk failed, so that the state in memory may differ from the stored state."""
        return self._has_failed

    @property
    def has_waiting_producers(self) -> bool:
        """Whether a produce request waits for replication."""
        return bool(self._producers)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which all records are committed and all transactions are decided.

        Never below the start of the log, as the first records of an open transaction may have been deleted.
        """
        high_watermark = self.core.high_watermark
        unstable = self.log.first_unstable_offset(high_watermark)
        if unstable is None:
            return high_watermark
        return min(max(unstable, self.core.start_offset), high_watermark)

    def produce(
        self, batch: Batch, acks: int, timeout_ms: float, done: ProduceDone, guard: int = NO_GUARD
    ) -> None:
        """Append a batch whose content was validated. `done` is called once, possibly before this returns."""
        if self._has_failed:
            done(BrokerError.KAFKA_STORAGE_ERROR, -1)
            return
        request_id = self._new_id()
        self._producers[request_id] = done
        self.take(Produced(request_id, batch, acks, timeout_ms, guard))

    def follower_fetched(
        self,
        replica_id: int,
        broker_epoch: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
    ) -> FetchAnswer:
        """The answer to a follower's fetch; the leader records the follower's progress."""
        # A look-up in the index, which only a limit in bytes needs.
        is_limited = self.settings.replica_lag_max_bytes is not None
        behind_bytes = self.bytes_from(fetch_offset) if is_limited else 0
        return self._ask(
            FollowerFetched(
                self._new_id(),
                replica_id,
                broker_epoch,
                leader_epoch,
                fetch_offset,
                last_fetched_epoch,
                behind_bytes=behind_bytes,
                log_start_offset=log_start_offset,
            )
        )

    def consumer_fetched(
        self, fetch_offset: int, leader_epoch: int, last_fetched_epoch: int, *, only_leader: bool
    ) -> FetchAnswer:
        """The answer to a consumer's fetch. See `ConsumerFetched`."""
        return self._ask(
            ConsumerFetched(
                self._new_id(),
                fetch_offset,
                leader_epoch,
                last_fetched_epoch,
                only_leader=only_leader,
            )
        )

    def read(self, answer: out.ServeFetch, max_bytes: int, most_batches: int) -> ReadBatches:
        """Whole batches from the range of the answer; at least one, unless the range is empty. Empty if the disk fails."""
        begin = answer.fetch_offset
        try:
            return self.log.read_batches(begin, answer.end_offset, max_bytes, most_batches)
        except (StorageFailure, DiskFull):
            self.fail()
            return ReadBatches(b"", begin, 0)

    def bytes_from(self, offset: int) -> int:
        """Approximate number of bytes from `offset` to the end of the log; 0 if the disk fails."""
        try:
            return self.log.bytes_from(offset)
        except (StorageFailure, DiskFull):
            self.fail()
            return 0

    def offset_at(self, timestamp_ms: int, end_offset: int) -> Searching:
        """See `DataLog`. An error if the disk fails, or the log is exchanged meanwhile."""
        return self._searched(self.log.offset_at(timestamp_ms, end_offset))

    def newest(self, end_offset: int) -> Searching:
        """See `DataLog`. An error if the disk fails, or the log is exchanged meanwhile."""
        return self._searched(self.log.newest(end_offset))

    def _searched(self, search: OffsetSearch) -> Searching:
        try:
            return (yield from search)
        except VoidSearch:
            # The client asks the present leader then.
            return BrokerError.NOT_LEADER_OR_FOLLOWER
        except (StorageFailure, DiskFull):
            self.fail()
            return BrokerError.KAFKA_STORAGE_ERROR

    def delete_records(self, start_offset: int) -> None:
        """Advance the start offset to `start_offset`, which is committed. Earlier records are no longer served."""
        if self._has_failed or start_offset <= self.core.start_offset:
            return
        try:
            self.log.delete_below(start_offset)
        except (StorageFailure, DiskFull):
            self.fail()
            return
        self._port.maintain_soon()
        self.take(StartOffsetMoved(start_offset))

    def retain(self, now_ms: int) -> None:
        """Delete old segments that retention allows to delete. `now_ms`: since 1970."""
        if self._has_failed:
            return
        try:
            start_offset = self.log.retain(self.core.high_watermark, now_ms)
        except (StorageFailure, DiskFull):
            self.fail()
            return
        if start_offset is not None and start_offset > self.core.start_offset:
            self.take(StartOffsetMoved(start_offset))

    def forget_producers(self, now_ms: int) -> None:
        """Drop the state of producers that have not written for `producer.id.expiration.ms`. `now_ms`: since 1970."""
        if not self._has_failed:
            self.core.expire_producers(now_ms, self.log.settings.producer_id_expiration_ms)
            self.log.forget_producers(now_ms, self.core.high_watermark)

    @property
    def has_unsynced_records(self) -> bool:
        """Whether records were appended since the last sync of the log."""
        return not self._has_failed and self.core.end_offset > self.log.synced_offset

    def synced(self) -> None:
        """A sync of the log has ended. If it does not cover what `flush.messages` holds back, another one follows."""
        if self._has_failed or self.core.role is None:
            return
        if not self._must_sync(self.core.end_offset):
            self.take(Written(self.core.end_offset))
            # A follower has waited for it with its next fetch.
            self._port.may_fetch(self)
            return
        self.take(Written(self.log.synced_offset))
        self._port.sync(self)

    def write_epochs(self) -> None:
        """Write what `SaveEpochs` has left to do: the log is about to be closed."""
        with suppress(StorageFailure, DiskFull):  # the directory is offline then
            self.log.write_epochs()

    def watch(self, moved: Callable[[], None]) -> None:
        """Add a watcher. It is called within a step whenever a waiting fetch might get a different answer."""
        self._watchers.add(moved)

    def unwatch(self, moved: Callable[[], None]) -> None:
        """Remove a watcher."""
        self._watchers.discard(moved)

    # -- events

    def fail(self) -> None:
        """The directory of the log failed. The state of the core may differ from the state on the disk, so it is not used any more."""
        if self._has_failed:
            return
        self._has_failed = True
        self._events.clear()
        if not self._is_stepping:
            self._end()

    def configure(self, settings: PartitionSettings) -> None:
        """Apply a changed configuration."""
        self.settings = settings
        self.take(SettingsChanged(settings))

    def limit(self, limits: BatchLimits) -> None:
        """Apply changed limits of batches from producers."""
        self.limits = limits

    def moved_to(self, directory_id: UUID, log: DataLog) -> None:
        """Use an equal log in another directory from now on."""
        assert not self._is_stepping, "the log is not exchanged within a step"
        self.directory_id, self.log = directory_id, log

    def throttle(self, throttled: Throttled) -> None:
        """Apply changed lists of throttled replicas."""
        self.throttled = throttled

    def tick(self) -> None:
        """Check timeouts."""
        self.take(Ticked())

    def take(self, event: Event) -> None:
        """Handle one event. Its outputs are carried out when this returns, unless it was called within a step."""
        if self._has_failed:
            return
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                for output in self.core.step(self._events.popleft(), clock_ms()):
                    self._carry_out(output)
        except (StorageFailure, DiskFull):
            self._events.clear()
            self._has_failed = True
        finally:
            self._is_stepping = False
        if self._has_failed:
            self._end()

    def _ask(self, event: FollowerFetched | ConsumerFetched) -> FetchAnswer:
        assert not self._is_stepping, "a fetch is not allowed within a step"
        self.take(event)
        answer, self._fetched = self._fetched, None
        if self._has_failed:
            return out.RefuseFetch(event.request_id, BrokerError.KAFKA_STORAGE_ERROR)
        assert answer is not None, "a fetch is answered at once"
        return answer

    def _end(self) -> None:
        """Answer everything that waits with KAFKA_STORAGE_ERROR. Nothing is appended or read any more."""
        for output in self.core.step(StorageFailed(), clock_ms()):
            self._carry_out(output)
        # Requests whose event or answer was dropped with the failed step.
        producers, self._producers = self._producers, {}
        for done in producers.values():
            done(BrokerError.KAFKA_STORAGE_ERROR, -1)

    def _carry_out(self, output: out.Output) -> None:
        match output:
            case out.AppendBatches():
                self._append(output.batches)
            case out.ProduceAnswered():
                done = self._producers.pop(output.request_id, None)
                if done is not None:
                    done(output.error, output.base_offset)
            case out.ServeFetch() | out.ReportDivergence() | out.RefuseFetch():
                self._fetched = output
            case out.ReadableMoved():
                for moved in tuple(self._watchers):
                    moved()
                self._port.may_fetch(self)
            case out.SaveEpochs():
                self.log.save_epochs(output.starts)
                self._port.write_epochs(self)
            case out.TruncateLog():
                # The core waits for the result of this output: Truncated is handled before events that arrived meanwhile.
                self._events.appendleft(Truncated(self.log.truncate_to(output.end_offset)))
            case out.RestartLog():
                self.log.restart_at(output.start_offset)
                self._events.appendleft(Truncated(()))
            case out.DeleteBefore():
                self.log.delete_below(output.start_offset)
                self._port.maintain_soon()
            case out.DeleteLog():
                self._port.delete_log(self)
            case out.StartFetching():
                self._port.start_fetching(self, output.leader_id)
            case out.StopFetching():
                self._port.stop_fetching(self)
            case out.AskRange():
                self._port.ask_range(self, output)
            case out.ProposeIsr():
                self._port.propose_isr(self, output)

    def _append(self, batches: tuple[Batch, ...]) -> None:
        if self.is_leader:
            # Batches of producers start at offset 0 and get their offsets here; batches from a leader already have them.
            batches = tuple(
                each._replace(data=place(each.data, each.base_offset, each.leader_epoch))  # type: ignore[arg-type]
                for each in batches
            )
        is_complete = self.log.append(batches)
        end_offset = batches[-1].end_offset
        must_sync = self._must_sync(end_offset)
        if must_sync or is_complete:
            self._port.sync(self, again=is_complete)
        # Others count as written when they are synced, so that acks=1 and acks=all wait for it.
        if not must_sync:
            self._events.append(Written(end_offset))

    def _must_sync(self, end_offset: int) -> bool:
        return end_offset - self.log.synced_offset >= self.log.settings.flush_messages

    def _new_id(self) -> int:
        self._next_request_id += 1
        return self._next_request_id
