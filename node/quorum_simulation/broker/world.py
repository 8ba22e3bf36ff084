"""A history of brokers, derived from a seed: faults, clients, and a final phase without faults.

Owns the network and the order of events. Must not know which faults there are (`faults.py`), nor invariants
(`watch.py`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from quorum_node.broker.errors import IsrError
from quorum_node.broker.events import FetchPosition, FollowerFetched, IsrRefused, IsrTaken
from quorum_node.broker.outputs import AskRange, ProposeIsr
from quorum_node.broker.settings import PartitionSettings
from quorum_simulation.broker.clients import Consumer, Producer
from quorum_simulation.broker.controller import ControllerStandIn
from quorum_simulation.broker.faults import Faults
from quorum_simulation.broker.host import Answer, SimulatedBroker
from quorum_simulation.broker.watch import Violation, Watch
from quorum_simulation.scheduler import Scheduler

BROKERS = (1, 2, 3)
SESSION_MS = 120.0
HEARTBEAT_MS = 30.0
ASK_TIMEOUT_MS = 60.0
HEAL_LIMIT_MS = 20_000.0
BATCHES_A_PRODUCER = 40
SLOW_MS = 400.0


@dataclass(slots=True)
class Outcome:
    """Contents of a history without violations."""

    seed: int
    elections: int
    isr_changes: int
    truncations: int
    restarts: int
    """Logs that were dropped and begun again at the start of the leader's."""
    acks: int
    refusals: int
    reads: int
    power_cuts: int
    """Leaders with unsynced records."""
    events: int
    simulated_ms: float
    struck: Counter[str] = field(default_factory=Counter)
    """Faults by kind."""
    cpu_s: float = field(default=0.0, compare=False)


class World:
    """One history.

    `cut`: (sender, receiver). `slow`, `doubled` and `cut_off`: brokers whose messages are late, arrive twice, or don't
    reach the controller.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.scheduler = Scheduler()
        self.settings = PartitionSettings(
            min_insync_replicas=2, replica_lag_time_max_ms=self.random.choice((60.0, 150.0))
        )
        self.write_ms = self.random.choice((1.0, 5.0, 30.0))
        partitions = self.random.randint(1, 2)
        self.controller = ControllerStandIn(BROKERS, partitions, self.settings.min_insync_replicas)
        self.watch = Watch(self, partitions)
        self.brokers = {each: SimulatedBroker(self, each, partitions) for each in BROKERS}
        self.producers = [
            Producer(self, 100 + each, each % partitions, BATCHES_A_PRODUCER)
            for each in range(2 * partitions)
        ]
        self.consumers = [Consumer(self, number) for number in range(partitions)]
        self.faults = Faults(self)
        self.cut: set[tuple[int, int]] = set()
        self.slow: set[int] = set()
        self.doubled: set[int] = set()
        self.cut_off: set[int] = set()
        self.controller_is_away = False
        self.healing = False
        self._channel_ms: dict[int, float] = {}

    def play(self) -> Outcome:
        """Run until the final phase has succeeded; raises Violation."""
        for broker in self.brokers.values():
            broker.start()
            self.scheduler.after(0, self._beat, broker)
            self.scheduler.after(0, self._learn, broker)
        for producer in self.producers:
            producer.begin()
        for consumer in self.consumers:
            consumer.begin()
        self.scheduler.after(HEARTBEAT_MS, self._expire)
        self.faults.begin()
        self.scheduler.run_until(self._produced, limit_ms=1500 + self.random.random() * 1500)
        self._heal()
        limit_ms = self.scheduler.now_ms + HEAL_LIMIT_MS
        if not self.scheduler.run_until(self._well, limit_ms):
            self.watch.at_the_end()
            raise Violation("producers get no response, although there are no faults any more")
        self.watch.at_the_end()
        watch, controller = self.watch, self.controller
        return Outcome(
            self.seed,
            controller.elections,
            controller.isr_changes,
            watch.truncations,
            watch.restarts,
            watch.acks,
            watch.refusals,
            watch.reads,
            self.faults.power_cuts,
            self.scheduler.executed,
            self.scheduler.now_ms,
            self.faults.struck,
        )

    # -- the network

    def deliver(self, action: Callable[..., None], *arguments: object) -> None:
        """Deliver a response to a client, possibly never."""
        if self.healing or self.random.random() > 0.03:
            self.scheduler.after(self._delay_ms(), action, *arguments)

    def to_broker(self, broker: SimulatedBroker, action: Callable[[], None]) -> None:
        """Deliver a request of a client."""
        if self.healing or self.random.random() > 0.03:
            for delay_ms in self._delays_ms({broker.id}):
                self.scheduler.after(delay_ms, broker.do, broker.run, action)

    def fetch(
        self, follower: SimulatedBroker, number: int, position: FetchPosition, answer: Answer
    ) -> None:
        """Send a fetch to the leader, and deliver the response to this run of the follower."""
        leader, run, epoch = self.brokers[position.leader_id], follower.run, follower.broker_epoch

        def back(content: object) -> None:
            self._between(leader.id, follower.id, follower.do, run, answer, content)

        def ask() -> None:
            event = FollowerFetched(
                request_id=leader.next_request_id(),
                replica_id=follower.id,
                broker_epoch=epoch,
                leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
            )
            leader.fetch(number, event, back)

        self._between(follower.id, leader.id, leader.do, leader.run, ask)

    def ask_range(self, follower: SimulatedBroker, number: int, output: AskRange) -> None:
        """The same for the range of the leader's log."""
        leader, run = self.brokers[output.leader_id], follower.run

        def back(event: object) -> None:
            self._between(leader.id, follower.id, follower.do, run, follower.step, number, event)

        self._between(
            follower.id,
            leader.id,
            leader.do,
            leader.run,
            leader.range,
            number,
            output.leader_epoch,
            back,
        )

    def _between(
        self, sender: int, receiver: int, action: Callable[..., None], *arguments: object
    ) -> None:
        if (sender, receiver) not in self.cut and (self.healing or self.random.random() > 0.02):
            for delay_ms in self._delays_ms({sender, receiver}):
                self.scheduler.after(delay_ms, action, *arguments)

    def _delays_ms(self, brokers: set[int]) -> list[float]:
        """Delays after which a message arrives, once or twice."""
        times = 2 if not self.doubled.isdisjoint(brokers) else 1
        late_ms = 0.0 if self.slow.isdisjoint(brokers) else SLOW_MS * self.random.random()
        return [late_ms + self._delay_ms() for _ in range(times)]

    def _delay_ms(self) -> float:
        return self.random.choice((0.5, 1.0, 3.0, 3.0, 8.0, 25.0)) * (0.5 + self.random.random())

    # -- the controller

    def register(self, broker: SimulatedBroker) -> None:
        """Register a broker, repeated until it succeeds."""
        if broker.broker_epoch >= 0:
            return
        if broker.id not in self.cut_off and not self.controller_is_away:
            epoch, version = self.controller.register(
                broker.id, broker.previous_broker_epoch, self.scheduler.now_ms
            )
            self.faults.registered(broker.id)
            broker.later(self._delay_ms(), broker.registered, epoch, version)
        broker.later(100, self.register, broker)

    def propose(self, broker: SimulatedBroker, number: int, asked: ProposeIsr) -> None:
        """Requests of a broker arrive in order; request and response can get lost."""
        arrives_ms = self.scheduler.now_ms + self._delay_ms()
        arrives_ms = self._channel_ms[broker.id] = max(
            arrives_ms, self._channel_ms.get(broker.id, 0.0) + 0.01
        )
        run, epoch = broker.run, broker.broker_epoch
        unanswered = IsrRefused(asked.proposal_id, IsrError.UNANSWERED)

        def arrive() -> None:
            answer: IsrTaken | IsrRefused = unanswered
            if self._reaches(broker):
                answer = self.controller.alter(number, broker.id, epoch, asked)
            if not self._reaches(broker):
                answer = unanswered
            delay_ms = ASK_TIMEOUT_MS if answer is unanswered else self._delay_ms()
            self.scheduler.after(delay_ms, broker.do, run, broker.step, number, answer)

        self.scheduler.after(arrives_ms - self.scheduler.now_ms, arrive)

    def _reaches(self, broker: SimulatedBroker) -> bool:
        fails = not self.healing and self.random.random() < 0.1
        return broker.id not in self.cut_off and not self.controller_is_away and not fails

    def _beat(self, broker: SimulatedBroker) -> None:
        beats = broker.up and not broker.paused and broker.broker_epoch >= 0
        if beats and broker.id not in self.cut_off and not self.controller_is_away:
            self.controller.beat(broker.id, broker.broker_epoch, self.scheduler.now_ms)
        self.scheduler.after(HEARTBEAT_MS * (0.5 + self.random.random()), self._beat, broker)

    def _learn(self, broker: SimulatedBroker) -> None:
        if broker.id not in self.cut_off:
            newest = len(self.controller.images) - 1
            version = (
                newest if self.healing else self.random.randint(min(broker.version, newest), newest)
            )
            broker.do(broker.run, broker.learn, version)
        self.scheduler.after(self.random.random() * 40, self._learn, broker)

    def _expire(self) -> None:
        if not self.controller_is_away:
            self.controller.expire(SESSION_MS, self.scheduler.now_ms)
        self.scheduler.after(HEARTBEAT_MS, self._expire)

    def _heal(self) -> None:
        self.healing = True
        for faults in (self.cut, self.cut_off, self.slow, self.doubled):
            faults.clear()
        self.faults.end_failover()
        for broker in self.brokers.values():
            broker.slow_disks = 0
            self.faults.restart(broker)
            if broker.paused:
                broker.resume()

    def _produced(self) -> bool:
        return all(each.is_done for each in self.producers)

    def keeping_deleted_records(self, number: int) -> list[int]:
        """Brokers whose log begins before that of the leader. A new leader may begin before its followers."""
        leader = self.controller.partitions[number].leader
        starts = {each.id: each.disks[number].start_offset for each in self.brokers.values()}
        return [each for each, start in starts.items() if start < starts.get(leader, 0)]

    def _well(self) -> bool:
        if not self._produced():
            return False
        return all(
            len(truth.isr) == len(BROKERS)
            and len({each.disks[number].end_offset for each in self.brokers.values()}) == 1
            and not self.keeping_deleted_records(number)
            for number, truth in enumerate(self.controller.partitions)
        )


def play(seed: int) -> Outcome:
    """Run the history of a seed; raises Violation, or exceptions of the tested code."""
    return World(seed).play()
