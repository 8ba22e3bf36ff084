"""One partition's replica on this broker: the pure core with its log, its fetcher and those who wait for it.

Owns the order in which events go in and outputs are carried out. Must not know the wire, nor what decides
(`quorum_node.broker`). Everything runs on the loop's thread.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

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
    Ticked,
    Truncated,
    Written,
)
from quorum_node.broker.leader import Leader
from quorum_node.broker.partition import PartitionReplica
from quorum_node.broker.produced_batch import BatchLimits, place
from quorum_node.broker.producers import NO_GUARD
from quorum_node.broker.settings import PartitionSettings
from quorum_node.image.topics import PartitionKey
from quorum_node.schema.primitives import Buffer
from quorum_node.server.broker.data_log import DataLog
from quorum_node.server.partition.port import clock_ms
from quorum_node.storage.errors import DiskFull, StorageFailure

FetchAnswer = out.ServeFetch | out.TellDivergence | out.RefuseFetch
ProduceDone = Callable[[BrokerError, int], None]
"""(error, base offset or -1); called once, maybe from within."""


class ReplicaPort(Protocol):
    """What a replica needs of the broker around it."""

    def start_fetching(self, replica: "HostedReplica", leader_id: int) -> None:
        """Fetch from that broker from now on, from no other."""

    def stop_fetching(self, replica: "HostedReplica") -> None:
        """Fetch from nobody."""

    def may_fetch(self, replica: "HostedReplica") -> None:
        """Its fetch position may have changed."""

    def ask_range(self, replica: "HostedReplica", output: out.AskRange) -> None:
        """RangeAnswered follows, or the question has to be put again."""

    def propose_isr(self, replica: "HostedReplica", output: out.ProposeIsr) -> None:
        """IsrTaken or IsrRefused follows."""

    def maintain_soon(self) -> None:
        """The log begins later: that is to survive the end of the process."""

    def delete_log(self, replica: "HostedReplica") -> None:
        """The partition is gone."""

    def storage_failed(self, failure: StorageFailure | DiskFull) -> None:
        """What the core decided is not on the disk: the process has to end."""


class HostedReplica:
    """`topic_name` is that of the topic when the replica was made: topics are never renamed."""

    def __init__(
        self,
        key: PartitionKey,
        topic_name: str,
        broker_id: int,
        log: DataLog,
        port: ReplicaPort,
        settings: PartitionSettings,
        limits: BatchLimits,
    ) -> None:
        self.key = key
        self.topic_name = topic_name
        self.core = PartitionReplica(broker_id, log.opened(), settings)
        self.log = log
        self.settings = settings
        self.limits = limits
        self._port = port
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._producers: dict[int, ProduceDone] = {}
        self._fetched: FetchAnswer | None = None
        self._next_request_id = 1
        self._watchers: set[Callable[[], None]] = set()
        self._has_failed = False

    # -- for those who ask

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads the partition, as far as it knows."""
        return isinstance(self.core.role, Leader)

    @property
    def has_waiting_producers(self) -> bool:
        """Whether somebody waits for a batch to be replicated."""
        return bool(self._producers)

    @property
    def last_stable_offset(self) -> int:
        """Below it everything is committed, and every transaction is decided."""
        high_watermark = self.core.high_watermark
        unstable = self.log.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def produce(
        self, batch: Batch, acks: int, timeout_ms: float, done: ProduceDone, guard: int = NO_GUARD
    ) -> None:
        """Append a batch that is valid in itself; `done` is called once, maybe before this returns."""
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
        """What a follower may have; the leader takes note of what it has."""
        return self._ask(
            FollowerFetched(
                self._new_id(),
                replica_id,
                broker_epoch,
                leader_epoch,
                fetch_offset,
                last_fetched_epoch,
                log_start_offset=log_start_offset,
            )
        )

    def consumer_fetched(self, fetch_offset: int, leader_epoch: int | None) -> FetchAnswer:
        """What a consumer may have."""
        return self._ask(ConsumerFetched(self._new_id(), fetch_offset, leader_epoch))

    def read(self, answer: out.ServeFetch, max_bytes: int) -> Buffer:
        """Whole batches of what may be served: at least one, if there is one."""
        try:
            return self.log.read(answer.fetch_offset, answer.end_offset, max_bytes)
        except (StorageFailure, DiskFull) as failure:
            self._failed(failure)
            return b""

    def delete_records(self, start_offset: int) -> None:
        """What lies before `start_offset`, which is committed, is not to be read any more."""
        if self._has_failed or start_offset <= self.core.start_offset:
            return
        try:
            self.log.delete_below(start_offset)
        except (StorageFailure, DiskFull) as failure:
            self._failed(failure)
            return
        self._port.maintain_soon()
        self.take(StartOffsetMoved(start_offset))

    def watch(self, moved: Callable[[], None]) -> None:
        """`moved` is called whenever a fetch might be answered otherwise, from within."""
        self._watchers.add(moved)

    def unwatch(self, moved: Callable[[], None]) -> None:
        """Not any more."""
        self._watchers.discard(moved)

    # -- events

    def configure(self, settings: PartitionSettings) -> None:
        """The configuration changed."""
        self.settings = settings
        self.take(SettingsChanged(settings))

    def limit(self, limits: BatchLimits) -> None:
        """What producers may send from now on."""
        self.limits = limits

    def tick(self) -> None:
        """Time passed."""
        self.take(Ticked())

    def take(self, event: Event) -> None:
        """One event; what it leads to is done when this returns, unless it was called from within."""
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
        except (StorageFailure, DiskFull) as failure:
            self._failed(failure)
        finally:
            self._is_stepping = False

    def _ask(self, event: FollowerFetched | ConsumerFetched) -> FetchAnswer:
        assert not self._is_stepping, "nobody fetches from within a step"
        self.take(event)
        answer, self._fetched = self._fetched, None
        if self._has_failed:
            return out.RefuseFetch(event.request_id, BrokerError.KAFKA_STORAGE_ERROR)
        assert answer is not None, "a fetch is answered at once"
        return answer

    def _failed(self, failure: StorageFailure | DiskFull) -> None:
        """Nobody is answered any more: what the core says is not what the disk has."""
        self._has_failed = True
        self._events.clear()
        self._port.storage_failed(failure)

    def _carry_out(self, output: out.Output) -> None:
        match output:
            case out.AppendBatches():
                self._append(output.batches)
            case out.ProduceAnswered():
                done = self._producers.pop(output.request_id, None)
                if done is not None:
                    done(output.error, output.base_offset)
            case out.ServeFetch() | out.TellDivergence() | out.RefuseFetch():
                self._fetched = output
            case out.ReadableMoved():
                for moved in tuple(self._watchers):
                    moved()
                self._port.may_fetch(self)
            case out.SaveEpochs():
                self.log.save_epochs(output.starts)
            case out.TruncateLog():
                # The core waits for nothing but this: Truncated goes before whatever has come meanwhile.
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
            # What a producer sent begins at offset 0; a follower's batches are placed already.
            batches = tuple(
                each._replace(data=place(each.data, each.base_offset, each.leader_epoch))  # type: ignore[arg-type]
                for each in batches
            )
        self.log.append(batches)
        self._events.append(Written(batches[-1].end_offset))

    def _new_id(self) -> int:
        self._next_request_id += 1
        return self._next_request_id
