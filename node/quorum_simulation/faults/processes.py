"""Processes that die, freeze, stop or give up their leadership."""

from collections.abc import Sequence

from quorum_node.raft.messages import ResignRequest
from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.faults.phases import DOWNLOADING
from quorum_simulation.host import SimulatedHost


class ProcessFaults:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("crash", self._crash),
            Kind("crash leader", self._crash_leader),
            Kind("crash in download", self._crash_in_download, (DOWNLOADING,)),
            Kind("freeze", self._freeze),
            Kind("graceful stop", self._graceful_stop),
            Kind("resign", self._resign),
        )

    def heal(self) -> None:
        """See `Family`."""
        for host in self._context.cluster.hosts.values():
            host.machine.frozen_until_ms = 0.0

    def _crash(self) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        self._kill(self._context.one_of(hosts))
        return True

    def _crash_leader(self) -> bool:
        leader = self._context.some_leader()
        if leader is not None:
            self._kill(leader)
        return leader is not None

    def _kill(self, host: SimulatedHost) -> None:
        def crash() -> None:
            host.machine.crash()
            self._context.later(20, 1500, self._context.restart, host)

        self._context.in_a_write(host, crash)

    def _crash_in_download(self) -> bool:
        """Crash and restart at once: a download continues where it stopped while its snapshot is still needed."""
        busy = [host for host in self._context.up_hosts() if host.is_downloading]
        if not busy:
            return False
        host = self._context.random.choice(busy)
        host.machine.crash()
        self._context.later(2, 30, self._context.restart, host)
        return True

    def _freeze(self) -> bool:
        random, hosts = self._context.random, self._context.up_hosts()
        if not hosts:
            return False
        host = self._context.some_leader() if random.random() < 0.4 else None
        host = host or self._context.one_of(hosts)
        # Sometimes long enough for the others to elect a leader while the old one is frozen.
        longest_ms = 2500 if random.random() < 0.6 else 6000
        now_ms = self._context.cluster.scheduler.now_ms
        host.machine.frozen_until_ms = now_ms + 100 + random.random() * longest_ms
        return True

    def _graceful_stop(self) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        host = self._context.some_leader() if self._context.random.random() < 0.6 else None
        host = host or self._context.one_of(hosts)
        host.machine.request_shutdown()
        return True

    def _resign(self) -> bool:
        led = [each for each in self._context.cluster.partitions if each.leader is not None]
        if not led:
            return False
        cluster = led[0] if len(led) == 1 else self._context.random.choice(led)
        assert cluster.leader is not None
        cluster.ask(cluster.leader, ResignRequest(), lambda response: None)
        return True
