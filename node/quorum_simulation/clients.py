"""Clients: writers of numbered records, and readers.

Owns the acknowledged writes, and when reads began. Must not know faults. A writer asks any host that claims to be
leader, including a zombie leader in a network partition; a reader asks any host.
"""

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import Proposed, ReadRequested
from quorum_node.raft.outputs import (
    ProposalCommitted,
    ProposalFailed,
    ReadConfirmed,
    ReadFailed,
)
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_node.server.partition.port import AppendOutcome, Committed

if TYPE_CHECKING:
    from quorum_simulation.cluster import Cluster
    from quorum_simulation.control.controller import SimulatedController
    from quorum_simulation.host import SimulatedHost

WRITE_TIMEOUT_MS = 1500.0
READ_TIMEOUT_MS = 500.0
RETRY_MS = 25.0
_TOPIC = 2


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A write that was acknowledged to a client as committed."""

    value: str
    base_offset: int
    end_offset: int
    epoch: int


class Clients:
    """Several writers and readers, each with one request out at a time."""

    def __init__(self, cluster: "Cluster", random: Random, writers: int, readers: int) -> None:
        self._cluster = cluster
        self._random = random
        self.acknowledged: list[Acknowledged] = []
        self.acknowledged_end_offset = 0
        self.reads: Counter[str] = Counter()
        """Confirmed reads, by the role of the confirming host: leader, follower, observer."""
        self.failed_writes = 0
        self.slow = False
        self._next_id = 1
        self._writes: dict[int, tuple[int, int, int]] = {}
        self._reads: dict[int, tuple[int, int]] = {}
        self._writers, self._readers = writers, readers

    def begin(self) -> None:
        """Start all clients."""
        for writer in range(self._writers):
            self._cluster.scheduler.after(self._random.random() * 10, self._write, writer, 0)
        for reader in range(self._readers):
            self._cluster.scheduler.after(self._random.random() * 10, self._read, reader)

    def committed(self, output: ProposalCommitted) -> None:
        """The host responds to the client, possibly after the client's timeout."""
        write = self._writes.pop(output.proposal_id, None)
        if write is None:
            return
        writer, number, count = write
        done = Acknowledged(
            f"{writer}-{number}", output.base_offset, output.end_offset, output.leader_epoch
        )
        assert output.end_offset - output.base_offset == count
        self.acknowledged.append(done)
        self.acknowledged_end_offset = max(self.acknowledged_end_offset, output.end_offset)
        self._cluster.watch.acknowledged(done)
        self._cluster.scheduler.after(self._pause_ms(), self._write, writer, number + 1)

    def failed(self, output: ProposalFailed) -> None:
        write = self._writes.pop(output.proposal_id, None)
        if write is not None:
            self.failed_writes += 1
            self._cluster.scheduler.after(RETRY_MS, self._write, write[0], write[1] + 1)

    def read_confirmed(self, host: "SimulatedHost", output: ReadConfirmed) -> None:
        """The host reads its own committed state, whatever the core has confirmed."""
        read = self._reads.pop(output.read_id, None)
        if read is not None:
            replica = host.replica
            kind = "leader" if host.is_leader else "follower" if replica.is_voter else "observer"
            self.reads[kind] += 1
            self._cluster.watch.read_done(host, read[1], output)
            self._cluster.scheduler.after(self._pause_ms() * 2, self._read, read[0])

    def read_failed(self, output: ReadFailed) -> None:
        read = self._reads.pop(output.read_id, None)
        if read is not None:
            self._cluster.scheduler.after(RETRY_MS, self._read, read[0])

    def _pause_ms(self) -> float:
        return self._random.random() * (200.0 if self.slow else 8.0)

    def _some_leader(self) -> "SimulatedHost | None":
        leaders = [host for host in self._cluster.hosts.values() if host.is_leader]
        return self._random.choice(leaders) if leaders else None

    def _write(self, writer: int, number: int) -> None:
        host = self._some_leader()
        scheduler = self._cluster.scheduler
        if host is None:
            scheduler.after(RETRY_MS, self._write, writer, number)
            return
        proposal_id = self._id()
        count = 1 if self._random.random() < 0.8 else self._random.randint(2, 5)
        # Some values are long, so that unsynced data span several sectors.
        fill = b"." * self._random.randrange(1500) if self._random.random() < 0.1 else b""
        values = tuple(b"%d-%d-%d%s" % (writer, number, part, fill) for part in range(count))
        self._writes[proposal_id] = (writer, number, count)
        scheduler.after(WRITE_TIMEOUT_MS, self._give_up_write, proposal_id)
        if host.controller is not None:
            self._append(host.controller, proposal_id, values)
        else:
            host.handle(host.run, Proposed(proposal_id, values))

    def _append(self, controller: "SimulatedController", id: int, names: tuple[bytes, ...]) -> None:
        """Append values through the append queue, each as a config of a topic."""

        def done(outcome: AppendOutcome) -> None:
            if isinstance(outcome, Committed):
                base, end, epoch = outcome.base_offset, outcome.end_offset, outcome.leader_epoch
                self.committed(ProposalCommitted(id, base, end, epoch))
            else:
                assert isinstance(outcome, RaftError)
                self.failed(ProposalFailed(id, outcome))

        values = tuple(_config(name.decode()) for name in names)
        controller.submit(values, done)

    def _give_up_write(self, proposal_id: int) -> None:
        write = self._writes.pop(proposal_id, None)
        if write is not None:
            self.failed_writes += 1
            self._write(write[0], write[1] + 1)

    def _read(self, reader: int) -> None:
        host = self._some_host(reader)
        if host is None:
            self._cluster.scheduler.after(RETRY_MS, self._read, reader)
            return
        read_id = self._id()
        self._reads[read_id] = (reader, self.acknowledged_end_offset)
        self._cluster.scheduler.after(READ_TIMEOUT_MS, self._give_up_read, read_id)
        host.handle(host.run, ReadRequested(read_id))

    def _some_host(self, reader: int) -> "SimulatedHost | None":
        """Half of the readers ask leaders, half all others.

        They prefer the oldest leader and its followers to a new one, as readers may not have learned of the new one.
        """
        hosts = [host for host in self._cluster.hosts.values() if host.up]
        leaders = [host for host in hosts if host.is_leader]
        oldest = min(leaders, key=lambda each: each.replica.epoch, default=None)
        if reader % 2 == 0:
            return oldest
        others = [host for host in hosts if not host.is_leader]
        if len(leaders) > 1 and oldest is not None:
            led = (oldest.key.id, oldest.replica.epoch)
            misled = [h for h in others if (h.replica.leader_id, h.replica.epoch) == led]
            others = misled or others
        return self._random.choice(others) if others else oldest

    def _give_up_read(self, read_id: int) -> None:
        read = self._reads.pop(read_id, None)
        if read is not None:
            self._read(read[0])

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id


def _config(name: str) -> bytes:
    record = ConfigRecord(resource_type=_TOPIC, resource_name="written", name=name, value="1")
    return encode_metadata(record, 0)
