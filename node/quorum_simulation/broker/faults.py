"""Faults of a history of brokers: of processes, disks, links and the controller; and deletions of records.

Owns the time and duration of faults, and which faults the configuration does not have to survive. Must not
know invariants (`watch.py`).
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from quorum_node.broker.events import StartOffsetMoved

if TYPE_CHECKING:
    from quorum_simulation.broker.host import SimulatedBroker
    from quorum_simulation.broker.world import World

FIRST_MS = 100.0
LOST_DISK = "lost disk"
POWER_CUT = "power cut"
_DOWN_MS = (5.0, 50.0, 300.0)
_FULL_DISK_MS = (300.0, 900.0)
_PAUSES_MS = (30.0, 150.0, 400.0)


class Faults:
    """`struck`: number of faults by kind. `power_cuts`: power failures of leaders with unsynced records. `history`: a readable log."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.struck: Counter[str] = Counter()
        self.power_cuts = 0
        self.history: list[str] = []
        self._unregistered: set[int] = set()
        """Brokers that ended uncleanly and have not registered since."""
        self._shortened: SimulatedBroker | None = None
        """A broker that lost its page cache or disk, and can still be elected: see `_lacks_a_log`."""
        often = (
            self._kill,
            self._cut_power_or_disk,
            self._pause,
            self._stop,
            self._cut_power_of_a_leader,
            self._cut_links,
            self._cut_controller,
        )
        seldom = (
            self._kill_all,
            self._fill_disk,
            self._slow_disk,
            self._slow_links,
            self._double_messages,
            self._fail_controller_over,
            self._delete_records,
            self._move,
            self._sway,
        )
        self._kinds: tuple[Callable[[SimulatedBroker], None], ...] = (*often, *often, *seldom)

    def begin(self) -> None:
        """Strike until the world heals."""
        self.world.scheduler.after(FIRST_MS, self._strike)

    def registered(self, broker_id: int) -> None:
        """The controller knows that the last run of this broker has ended, and how."""
        self._unregistered.discard(broker_id)

    def _strike(self) -> None:
        world = self.world
        if world.healing:
            return
        broker = world.brokers[world.random.choice(sorted(world.brokers))]
        world.random.choice(self._kinds)(broker)
        world.scheduler.after(20 + world.random.random() * 200, self._strike)

    def _note(self, kind: str, broker: "SimulatedBroker") -> None:
        self.struck[kind] += 1
        self.history.append(f"{self.world.scheduler.now_ms:7.0f} ms  {kind}, broker {broker.id}")

    # -- processes and what they leave on disk

    def _kill(self, broker: "SimulatedBroker") -> None:
        if broker.up and not self._lacks_a_log():
            self._end("kill", broker, _DOWN_MS)

    def _fill_disk(self, broker: "SimulatedBroker") -> None:
        """The process ends, and starts again once there is space."""
        if broker.up and not self._lacks_a_log():
            self._end("full disk", broker, _FULL_DISK_MS)

    def _cut_power_or_disk(self, broker: "SimulatedBroker") -> None:
        """Lose the page cache, or everything: a failed disk is replaced by an empty one."""
        if broker.up and not self._lacks_a_log() and self._others_have_all(broker):
            kind = LOST_DISK if self.world.random.random() < 0.3 else POWER_CUT
            self._end(kind, broker, _DOWN_MS)

    def _cut_power_of_a_leader(self, broker: "SimulatedBroker") -> None:
        """Cut the power of the current leader, if there is one."""
        world = self.world
        leader_id = world.random.choice(world.controller.partitions).leader
        leader = world.brokers.get(leader_id, broker)
        if leader.up and not self._lacks_a_log() and self._others_have_all(leader):
            self._end(POWER_CUT, leader, _DOWN_MS)

    def _kill_all(self, broker: "SimulatedBroker") -> None:
        """Kill all brokers at once, as in a failed rollout."""
        if self._lacks_a_log():
            return
        for each in self.world.brokers.values():
            if each.up:
                self._end("kill of all", each, (self.world.random.random() * 200,))

    def _stop(self, broker: "SimulatedBroker") -> None:
        """Stop cleanly; a power failure afterwards loses nothing."""
        if not broker.up or broker.paused or broker.broker_epoch < 0:
            return
        self._note("graceful stop", broker)
        broker.stop()
        if self.world.random.random() < 0.3:
            for disk in broker.disks:
                disk.lose_power()
        self.world.scheduler.after(self.world.random.choice(_DOWN_MS), self.restart, broker)

    def _end(self, kind: str, broker: "SimulatedBroker", down_ms: tuple[float, ...]) -> None:
        self._note(kind, broker)
        self._unregistered.add(broker.id)
        loses_power = kind in (POWER_CUT, LOST_DISK)
        if loses_power:
            self._shortened = broker
            self.power_cuts += self._leads_what_is_not_synced(broker)
        broker.kill(power=loses_power)
        if kind == LOST_DISK:
            for disk in broker.disks:
                disk.lose_everything()
        self.world.scheduler.after(self.world.random.choice(down_ms), self.restart, broker)

    def restart(self, broker: "SimulatedBroker") -> None:
        """Start the process if it does not run."""
        if not broker.up:
            broker.start()

    def _pause(self, broker: "SimulatedBroker") -> None:
        if broker.up and not broker.paused:
            self._note("pause", broker)
            broker.paused = True
            self.world.scheduler.after(
                self.world.random.choice(_PAUSES_MS), self._resume, broker, broker.run
            )

    def _resume(self, broker: "SimulatedBroker", run: int) -> None:
        if broker.up and broker.run == run:
            broker.resume()

    def _leads_what_is_not_synced(self, broker: "SimulatedBroker") -> bool:
        return any(
            truth.leader == broker.id and disk.synced < disk.written
            for truth, disk in zip(self.world.controller.partitions, broker.disks, strict=True)
        )

    # -- faults that the configuration does not have to survive

    def _others_have_all(self, broker: "SimulatedBroker") -> bool:
        """With `min.insync.replicas` 2 only one replica may end uncleanly at a time.

        The controller does not know of any other, and relies on another replica of each partition.
        """
        if self._unregistered:
            return False
        return all(
            {*each.isr, *(each.eligible_leader_replicas or ())} - {broker.id}
            for each in self.world.controller.partitions
        )

    def _lacks_a_log(self) -> bool:
        """A broker without its page cache may still be elected: as a member, or as the last leader.

        Meanwhile no other broker ends uncleanly. They still pause, stop cleanly, and get isolated and fenced.
        """
        broker = self._shortened
        if broker is None:
            return False
        last = [each.last_known_elr or () for each in self.world.controller.partitions]
        if broker.id in self._unregistered or any(broker.id in each for each in last):
            return True
        self._shortened = None
        return False

    # -- links, disks and the controller

    def _slow_disk(self, broker: "SimulatedBroker") -> None:
        self._note("slow disk", broker)
        broker.slow_disks += 1
        self.world.scheduler.after(self._lasts_ms(), self._speed_disk_up, broker)

    def _speed_disk_up(self, broker: "SimulatedBroker") -> None:
        broker.slow_disks -= 1

    def _cut_links(self, broker: "SimulatedBroker") -> None:
        """In one direction, or in both."""
        world = self.world
        other = world.random.choice([each for each in world.brokers if each != broker.id])
        is_whole = world.random.random() < 0.5
        self._note("partition" if is_whole else "one-way cut", broker)
        links = {(broker.id, other), (other, broker.id)} if is_whole else {(broker.id, other)}
        world.cut |= links
        world.scheduler.after(self._lasts_ms(), world.cut.difference_update, links)

    def _slow_links(self, broker: "SimulatedBroker") -> None:
        """Messages of this broker arrive after the timeouts of their receivers."""
        self._note("delay", broker)
        self.world.slow.add(broker.id)
        self.world.scheduler.after(self._lasts_ms(), self.world.slow.discard, broker.id)

    def _double_messages(self, broker: "SimulatedBroker") -> None:
        """Requests and responses arrive twice, at different times."""
        self._note("duplicate", broker)
        self.world.doubled.add(broker.id)
        self.world.scheduler.after(self._lasts_ms(), self.world.doubled.discard, broker.id)

    def _cut_controller(self, broker: "SimulatedBroker") -> None:
        self._note("cut from the controller", broker)
        self.world.cut_off.add(broker.id)
        self.world.scheduler.after(self._lasts_ms(), self.world.cut_off.discard, broker.id)

    def _fail_controller_over(self, broker: "SimulatedBroker") -> None:
        """Requests stay without a response, whether they were committed or not. Then all leases start again."""
        self._note("controller failover", broker)
        self.world.controller_is_away = True
        self.world.scheduler.after(30 + self.world.random.random() * 200, self.end_failover)

    def end_failover(self) -> None:
        """Another controller is active."""
        if self.world.controller_is_away:
            self.world.controller_is_away = False
            self.world.controller.fail_over(self.world.scheduler.now_ms)

    def _lasts_ms(self) -> float:
        return 50 + self.world.random.random() * 300

    # -- the administrator

    def _delete_records(self, broker: "SimulatedBroker") -> None:
        """By retention on any replica, or DeleteRecords on the leader: never above the high watermark."""
        if not broker.up or broker.paused:
            return
        self._note("deleted records", broker)
        for number, replica in enumerate(broker.replicas):
            offset = self.world.random.randint(
                replica.start_offset, max(replica.start_offset, replica.high_watermark)
            )
            broker.disks[number].begin_at(offset)
            broker.step(number, StartOffsetMoved(offset))

    def _move(self, broker: "SimulatedBroker") -> None:
        """Move a leadership."""
        self._note("move of a leadership", broker)
        self._move_to(broker)

    def _sway(self, broker: "SimulatedBroker") -> None:
        """Move leadership back and forth before all brokers have learned of it."""
        self._note("moves in a row", broker)
        world = self.world
        for _ in range(3):
            each = world.brokers[world.random.choice(sorted(world.brokers))]
            world.scheduler.after(world.random.random() * 30, self._move_to, each)

    def _move_to(self, broker: "SimulatedBroker") -> None:
        number = self.world.random.randrange(len(self.world.controller.partitions))
        self.world.controller.move_leader(number, broker.id)
