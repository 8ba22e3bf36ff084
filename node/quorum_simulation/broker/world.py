"""A history of brokers, derived from a seed: faults, clients, and a final phase without faults.

Owns the network, the faults and the order of events. Must not know invariants (`watch.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from quorum_node.broker.errors import IsrError
from quorum_node.broker.events import FollowerFetched, IsrRefused, IsrTaken
from quorum_node.broker.follower import FetchPosition
from quorum_node.broker.outputs import AskRange, ProposeIsr
from quorum_node.broker.settings import PartitionSettings
from quorum_simulation.broker.clients import Consumer, Producer
from quorum_simulation.broker.controller import ControllerStandIn
from quorum_simulation.broker.host import Answer, SimulatedBroker
from quorum_simulation.broker.watch import Violation, Watch
from quorum_simulation.scheduler import Scheduler

BROKERS = (1, 2, 3)
SESSION_MS = 120.0
HEARTBEAT_MS = 30.0
ASK_TIMEOUT_MS = 60.0
HEAL_LIMIT_MS = 20_000.0
BATCHES_A_PRODUCER = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """Contents of a history without violations."""

    seed: int
    elections: int
    isr_changes: int
    truncations: int
    acks: int
    refusals: int
    reads: int
    faults: int
    power_cuts: int
    """Leaders with unsynced records."""


class World:
    """One history."""

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
        self.faults = self.power_cuts = 0
        self._cut: set[tuple[int, int]] = set()
        self._cut_off: set[int] = set()
        """Brokers without connection to the controller."""
        self._unregistered: set[int] = set()
        """Brokers that ended uncleanly and have not registered since."""
        self._shortened: SimulatedBroker | None = None
        """A broker that lost its page cache and can still be elected: see `_lacks_a_log`."""
        self._channel_ms: dict[int, float] = {}
        self._healing = False

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
        self.scheduler.after(100, self._strike)
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
            watch.acks,
            watch.refusals,
            watch.reads,
            self.faults,
            self.power_cuts,
        )

    # -- the network

    def deliver(self, action: Callable[..., None], *arguments: object) -> None:
        """Deliver a response to a client, possibly never."""
        if self._healing or self.random.random() > 0.03:
            self.scheduler.after(self._delay_ms(), action, *arguments)

    def to_broker(self, broker: SimulatedBroker, action: Callable[[], None]) -> None:
        """From a client."""
        self.deliver(broker.do, broker.run, action)

    def fetch(
        self, follower: SimulatedBroker, number: int, position: FetchPosition, answer: Answer
    ) -> None:
        """Ask the leader, and bring the answer back to this run of the follower."""
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
        if (sender, receiver) not in self._cut and (self._healing or self.random.random() > 0.02):
            self.scheduler.after(self._delay_ms(), action, *arguments)

    def _delay_ms(self) -> float:
        return self.random.choice((0.5, 1.0, 3.0, 3.0, 8.0, 25.0)) * (0.5 + self.random.random())

    # -- the controller

    def register(self, broker: SimulatedBroker) -> None:
        """Again and again until it is registered."""
        if broker.broker_epoch >= 0:
            return
        if broker.id not in self._cut_off:
            epoch, version = self.controller.register(
                broker.id, broker.previous_broker_epoch, self.scheduler.now_ms
            )
            self._unregistered.discard(broker.id)
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
        fails = not self._healing and self.random.random() < 0.1
        return broker.id not in self._cut_off and not fails

    def _beat(self, broker: SimulatedBroker) -> None:
        beats = broker.up and not broker.paused and broker.broker_epoch >= 0
        if beats and broker.id not in self._cut_off:
            self.controller.beat(broker.id, broker.broker_epoch, self.scheduler.now_ms)
        self.scheduler.after(HEARTBEAT_MS * (0.5 + self.random.random()), self._beat, broker)

    def _learn(self, broker: SimulatedBroker) -> None:
        if broker.id not in self._cut_off:
            newest = len(self.controller.images) - 1
            version = (
                newest
                if self._healing
                else self.random.randint(min(broker.version, newest), newest)
            )
            broker.do(broker.run, broker.learn, version)
        self.scheduler.after(self.random.random() * 40, self._learn, broker)

    def _expire(self) -> None:
        self.controller.expire(SESSION_MS, self.scheduler.now_ms)
        self.scheduler.after(HEARTBEAT_MS, self._expire)

    # -- faults

    def _strike(self) -> None:
        if self._healing:
            return
        self.faults += 1
        broker = self.brokers[self.random.choice(BROKERS)]
        cuts = (self._cut_power_of_a_leader, self._cut_links, self._cut_controller)
        often = (self._kill, self._pause, self._stop, *cuts)
        strike = self.random.choice((*often, *often, self._kill_all, self._move, self._sway))
        strike(broker)
        self.scheduler.after(20 + self.random.random() * 200, self._strike)

    def _kill(self, broker: SimulatedBroker) -> None:
        """Kill a process, or cut its power, which loses the page cache."""
        if not broker.up or self._lacks_a_log():
            return
        power = self._others_have_all(broker) and self.random.random() < 0.5
        self._end(broker, power=power)
        self.scheduler.after(self.random.choice((5, 50, 300)), self._restart, broker)

    def _cut_power_of_a_leader(self, broker: SimulatedBroker) -> None:
        """Of whoever leads now, if there is anybody."""
        leader_id = self.random.choice(self.controller.partitions).leader
        leader = self.brokers.get(leader_id, broker)
        if leader.up and not self._lacks_a_log() and self._others_have_all(leader):
            self._end(leader, power=True)
            self.scheduler.after(self.random.choice((5, 50, 300)), self._restart, leader)

    def _end(self, broker: SimulatedBroker, *, power: bool) -> None:
        self._unregistered.add(broker.id)
        if power:
            self._shortened = broker
            self.power_cuts += self._leads_what_is_not_synced(broker)
        broker.kill(power=power)

    def _leads_what_is_not_synced(self, broker: SimulatedBroker) -> bool:
        return any(
            truth.leader == broker.id and disk.synced < disk.written
            for truth, disk in zip(self.controller.partitions, broker.disks, strict=True)
        )

    def _others_have_all(self, broker: SimulatedBroker) -> bool:
        """With `min.insync.replicas` 2 only one replica may end uncleanly at a time.

        The controller does not know of any other, and relies on another replica of each partition.
        """
        if self._unregistered:
            return False
        return all(
            {*each.isr, *(each.eligible_leader_replicas or ())} - {broker.id}
            for each in self.controller.partitions
        )

    def _lacks_a_log(self) -> bool:
        """A broker without its page cache may still be elected: as a member, or as the last leader.

        Meanwhile no other broker ends uncleanly. They still pause, stop cleanly, and get isolated and fenced.
        """
        broker = self._shortened
        if broker is None:
            return False
        last = [each.last_known_elr or () for each in self.controller.partitions]
        if broker.id in self._unregistered or any(broker.id in each for each in last):
            return True
        self._shortened = None
        return False

    def _stop(self, broker: SimulatedBroker) -> None:
        """Stop cleanly; a power failure afterwards loses nothing."""
        if not broker.up or broker.paused or broker.broker_epoch < 0:
            return
        broker.stop()
        if self.random.random() < 0.3:
            for disk in broker.disks:
                disk.lose_power()
        self.scheduler.after(self.random.choice((5, 50, 300)), self._restart, broker)

    def _kill_all(self, broker: SimulatedBroker) -> None:
        """Kill all brokers at once, as in a failed rollout."""
        if self._lacks_a_log():
            return
        for each in self.brokers.values():
            if each.up:
                self._end(each, power=False)
                self.scheduler.after(self.random.random() * 200, self._restart, each)

    def _restart(self, broker: SimulatedBroker) -> None:
        if not broker.up:
            broker.start()

    def _pause(self, broker: SimulatedBroker) -> None:
        if broker.up and not broker.paused:
            broker.paused = True
            self.scheduler.after(
                self.random.choice((30, 150, 400)), self._resume, broker, broker.run
            )

    def _resume(self, broker: SimulatedBroker, run: int) -> None:
        if broker.up and broker.run == run:
            broker.resume()

    def _cut_links(self, broker: SimulatedBroker) -> None:
        other = self.random.choice([each for each in BROKERS if each != broker.id])
        links = {(broker.id, other)} | (
            {(other, broker.id)} if self.random.random() < 0.5 else set()
        )
        self._cut |= links
        self.scheduler.after(50 + self.random.random() * 300, self._cut.difference_update, links)

    def _cut_controller(self, broker: SimulatedBroker) -> None:
        self._cut_off.add(broker.id)
        self.scheduler.after(50 + self.random.random() * 300, self._cut_off.discard, broker.id)

    def _move(self, broker: SimulatedBroker) -> None:
        number = self.random.randrange(len(self.controller.partitions))
        self.controller.move_leader(number, broker.id)

    def _sway(self, broker: SimulatedBroker) -> None:
        """Move leadership back and forth before all brokers know it."""
        for _ in range(3):
            each = self.brokers[self.random.choice(BROKERS)]
            self.scheduler.after(self.random.random() * 30, self._move, each)

    def _heal(self) -> None:
        self._healing = True
        self._cut.clear()
        self._cut_off.clear()
        for broker in self.brokers.values():
            self._restart(broker)
            if broker.paused:
                broker.resume()

    def _produced(self) -> bool:
        return all(each.is_done for each in self.producers)

    def _well(self) -> bool:
        if not self._produced():
            return False
        return all(
            len(truth.isr) == len(BROKERS)
            and len({each.disks[number].end_offset for each in self.brokers.values()}) == 1
            for number, truth in enumerate(self.controller.partitions)
        )


def play(seed: int) -> Outcome:
    """The history of a seed; raises Violation, or what the code itself noticed."""
    return World(seed).play()
