"""One simulated broker: the real replicas, and code that writes, fetches and calls the controller.

Owns what `server` does in a real broker: it executes outputs in order and returns their results. Must not know
faults, nor invariants.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    BatchesFetched,
    ConsumerFetched,
    Event,
    FetchPosition,
    FetchRefused,
    FollowerFetched,
    LogDiverged,
    MetadataChanged,
    Produced,
    RangeAnswered,
    Ticked,
    Truncated,
    Written,
)
from quorum_node.broker.leader import Leader
from quorum_node.broker.outputs import (
    AppendBatches,
    AskRange,
    DeleteBefore,
    Output,
    ProduceAnswered,
    ProposeIsr,
    RefuseFetch,
    ReportDivergence,
    RestartLog,
    SaveEpochs,
    ServeFetch,
    StopFetching,
    TruncateLog,
)
from quorum_node.broker.partition import PartitionReplica
from quorum_simulation.broker.disk import PartitionDisk

if TYPE_CHECKING:
    from quorum_simulation.broker.world import World

BATCHES_A_FETCH = 4
FETCH_PAUSE_MS = 4.0
FETCH_TIMEOUT_MS = 60.0
TICK_MS = 25.0
CLOCK_RATES = (1.0, 1.0, 0.7, 1.3)
SLOW_WRITE_MS = 150.0
Answer = Callable[[object], None]


class SimulatedBroker:
    """`run`: number of the process run; callbacks of an older one are ignored."""

    def __init__(self, world: "World", broker_id: int, partitions: int) -> None:
        self.world = world
        self.id = broker_id
        self.disks = [PartitionDisk() for _ in range(partitions)]
        self.replicas: list[PartitionReplica] = []
        self.up = False
        self.paused = False
        self.run = 0
        self.broker_epoch = -1
        self.previous_broker_epoch = -1
        """Broker epoch of the run before, if it stopped cleanly."""
        self.version = -1
        self.slow_disks = 0
        """Number of present faults that slow the disk down."""
        self.clock_rate = world.random.choice(CLOCK_RATES)
        self._backlog: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._answers: dict[int, Answer] = {}
        self._fetching: dict[int, int] = {}
        self._request_id = 0

    # -- the process

    def start(self) -> None:
        """Open the logs, and register."""
        self.up, self.paused, self.run = True, False, self.run + 1
        self.broker_epoch = self.version = -1
        self._backlog, self._answers, self._fetching = [], {}, {}
        was_closed = self.previous_broker_epoch >= 0
        self.replicas = [
            PartitionReplica(self.id, disk.open(was_closed=was_closed), self.world.settings)
            for disk in self.disks
        ]
        self.later(TICK_MS, self._tick)
        self.world.register(self)

    def stop(self) -> None:
        """Stop cleanly: flush everything, then write the epoch of this run."""
        self.up = False
        for disk in self.disks:
            disk.flush()
        self.previous_broker_epoch = self.broker_epoch

    def kill(self, *, power: bool) -> None:
        """The process ends at once."""
        self.up = False
        self.previous_broker_epoch = -1
        for disk in self.disks:
            disk.lose_power() if power else disk.lose_process()

    def resume(self) -> None:
        """Handle the events that queued up during a pause."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for action, arguments in backlog:
            self.do(self.run, action, *arguments)

    def later(self, delay_ms: float, action: Callable[..., None], *arguments: object) -> None:
        """Schedule a call in this run of the process."""
        self.world.scheduler.after(delay_ms, self.do, self.run, action, *arguments)

    def do(self, run: int, action: Callable[..., None], *arguments: object) -> None:
        """Run now, or after the pause, or never if the process has ended."""
        if not self.up or run != self.run:
            return
        if self.paused:
            self._backlog.append((action, arguments))
        else:
            action(*arguments)

    # -- metadata

    def registered(self, broker_epoch: int, version: int) -> None:
        """The controller has registered this run. Metadata older than its registration is ignored."""
        if self.broker_epoch < 0:
            self.broker_epoch = broker_epoch
            self.learn(version)

    def learn(self, version: int) -> None:
        """Apply metadata up to a version at once."""
        if self.broker_epoch < 0 or version <= self.version:
            return
        self.version = version
        image = self.world.controller.images[version]
        for number, partition in enumerate(image.partitions):
            self.step(number, MetadataChanged(partition, image.active))

    def _tick(self) -> None:
        for number in range(len(self.replicas)):
            self.step(number, Ticked())
            disk = self.disks[number]
            if self.world.random.random() < 0.2:
                disk.high_watermark = self.replicas[number].high_watermark
            if self.world.random.random() < 0.2:
                disk.sync()
        self.later(TICK_MS * (0.5 + self.world.random.random()), self._tick)

    # -- requests of others

    def produce(self, number: int, event: Produced, answer: Answer) -> None:
        """Handle a produce request of a client."""
        self._asked(number, event, answer)

    def fetch(self, number: int, event: FollowerFetched | ConsumerFetched, answer: Answer) -> None:
        """Handle a fetch of a follower or a consumer."""
        self._asked(number, event, answer)

    def range(self, number: int, leader_epoch: int, answer: Answer) -> None:
        """Handle a request for the log's range, from a follower that is out of range."""
        replica = self.replicas[number]
        if isinstance(replica.role, Leader) and replica.leader_epoch == leader_epoch:
            answer(RangeAnswered(leader_epoch, replica.start_offset, replica.end_offset))

    def _asked(self, number: int, event: Event, answer: Answer) -> None:
        request_id = event.request_id  # type: ignore[union-attr]  # only events of requests come here
        self._answers[request_id] = answer
        self.step(number, event)

    def next_request_id(self) -> int:
        """Next request id; ids are assigned by the receiver."""
        self._request_id += 1
        return self._request_id

    # -- the core

    def step(self, number: int, event: Event) -> None:
        """Handle one event and execute its outputs."""
        replica = self.replicas[number]
        outputs = replica.step(event, self.world.scheduler.now_ms * self.clock_rate)
        for output in outputs:
            self._carry_out(number, output)
        self.world.watch.stepped(self, number)
        for output in outputs:
            self._tell(number, output)
        self._fetch_on(number)

    def _carry_out(self, number: int, output: Output) -> None:
        """Disk outputs come first, as responses depend on them."""
        disk = self.disks[number]
        if isinstance(output, AppendBatches):
            disk.append(output.batches)
            slowest_ms = SLOW_WRITE_MS if self.slow_disks else self.world.write_ms
            delay_ms = self.world.random.random() * slowest_ms
            self.later(delay_ms, self._wrote, number, disk.end_offset)
        elif isinstance(output, TruncateLog):
            self.world.watch.truncates(self, number, output.end_offset)
            disk.truncate(output.end_offset)
            self.step(number, Truncated(disk.producers()))
        elif isinstance(output, RestartLog):
            self.world.watch.restarts_log(self, number, output.start_offset)
            disk.restart_at(output.start_offset)
            self.step(number, Truncated(()))
        elif isinstance(output, DeleteBefore):
            disk.begin_at(output.start_offset)
        elif isinstance(output, SaveEpochs):
            disk.epoch_starts = output.starts

    def _wrote(self, number: int, end_offset: int) -> None:
        self.disks[number].wrote(end_offset)
        self.step(number, Written(end_offset))

    def _tell(self, number: int, output: Output) -> None:
        if isinstance(output, ProduceAnswered | RefuseFetch | ReportDivergence | ServeFetch):
            answer = self._answers.pop(output.request_id)
            if isinstance(output, ServeFetch):
                disk = self.disks[number]
                batches = disk.read(output.fetch_offset, output.end_offset, BATCHES_A_FETCH)
                answer((output, batches))
            else:
                answer(output)
        elif isinstance(output, ProposeIsr):
            self.world.propose(self, number, output)
        elif isinstance(output, AskRange):
            self._ask_range(number, output)
        elif isinstance(output, StopFetching):
            self._fetching.pop(number, None)

    # -- fetching

    def _fetch_on(self, number: int) -> None:
        if number not in self._fetching and self.replicas[number].fetch_position is not None:
            self._fetching[number] = 0
            self.later(self.world.random.random() * FETCH_PAUSE_MS, self._fetch, number)

    def _fetch(self, number: int) -> None:
        position = self.replicas[number].fetch_position
        if position is None:
            self._fetching.pop(number, None)
            return
        attempt = self._fetching[number] = self.world.scheduler.executed
        self.world.fetch(
            self, number, position, lambda answer: self._fetched(number, attempt, position, answer)
        )
        self.later(FETCH_TIMEOUT_MS, self._give_up, number, attempt)

    def _give_up(self, number: int, attempt: int) -> None:
        if self._fetching.get(number) == attempt:
            del self._fetching[number]
            self._fetch_on(number)

    def _fetched(self, number: int, attempt: int, asked: FetchPosition, answer: object) -> None:
        """Pass a response to the core, also a late one, which the core has to recognize."""
        if self._fetching.get(number) == attempt:
            del self._fetching[number]
        if isinstance(answer, ReportDivergence):
            self.step(number, LogDiverged(asked, answer.leader))
        elif isinstance(answer, RefuseFetch):
            self.step(number, FetchRefused(asked, answer.error))
        elif isinstance(answer, tuple):
            serve, batches = answer
            self.step(
                number,
                BatchesFetched(asked, batches, serve.high_watermark, serve.log_start_offset),
            )

    def _ask_range(self, number: int, output: AskRange) -> None:
        self.world.ask_range(self, number, output)
        self.later(FETCH_TIMEOUT_MS, self._ask_range_again, number, output)

    def _ask_range_again(self, number: int, output: AskRange) -> None:
        replica = self.replicas[number]
        if replica.leader_epoch == output.leader_epoch and replica.asks_range:
            self._ask_range(number, output)


def refusal(answer: object) -> BrokerError | None:
    """The error of an answer to a produce request or a fetch."""
    if isinstance(answer, ProduceAnswered | RefuseFetch):
        return answer.error if answer.error is not BrokerError.NONE else None
    return None
