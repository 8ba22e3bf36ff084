"""Quorums with a replica that is behind the start of the leader's log, and the messages between the cores."""

from collections.abc import Callable
from dataclasses import replace

from quorum_node.raft.events import PrefixObsolete, SnapshotCreated
from quorum_node.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from quorum_node.raft.outputs import Output, Send, WriteSnapshotChunk
from quorum_node.records.snapshot_id import SnapshotId
from support.raft.cores import Cores, Node


def take_snapshot(cores: Cores, node: Node) -> SnapshotId:
    """Write a snapshot of everything committed on that node."""
    replica = node.replica
    end_offset = replica.high_watermark
    taken = SnapshotId(end_offset, replica.epochs.epoch_at(end_offset - 1))
    node.snapshots.write(taken, replica.voters_at(end_offset), node.committed_values())
    cores.do(node, SnapshotCreated(taken))
    return taken


def delete_prefix(cores: Cores, node: Node) -> None:
    """Delete the log before the newest snapshot, as retention does."""
    latest = node.snapshots.latest
    assert latest is not None
    cores.do(node, PrefixObsolete(latest))


def release_finish(cores: Cores, node: Node) -> None:
    """End a held-back verification of a download."""
    node.hold_finish = False
    event, node.finished = node.finished, None
    if event is not None:
        cores.do(node, event)


class RecordingCores(Cores):
    """Records requests and actions, by node."""

    def __init__(self) -> None:
        super().__init__(self._saw)
        self.done: list[tuple[str, Output]] = []

    def _saw(self, node: Node, output: Output) -> None:
        self.done.append((node.name, output))

    def of(self, name: str, kind: type) -> list[Output]:
        return [output for who, output in self.done if who == name and isinstance(output, kind)]

    def positions(self, name: str) -> list[int]:
        """Positions of the requested parts in order."""
        return [
            output.request.position
            for output in self.of(name, Send)
            if isinstance(output, Send) and isinstance(output.request, FetchSnapshotRequest)
        ]

    def written(self, name: str) -> list[int]:
        return [
            output.position
            for output in self.of(name, WriteSnapshotChunk)
            if isinstance(output, WriteSnapshotChunk)
        ]


def small_parts(node: Node, size_bytes: int = 40) -> None:
    node.config = replace(node.config, snapshot_part_bytes=size_bytes)
    node.replica.config = node.config


def left_behind(cores: Cores, *names: str, values: int = 8) -> Node:
    """A quorum led by the first; the last one is cut off while the log up to its end is deleted."""
    leader = cores.quorum(*names)
    cores.partition(names[:-1], names[-1:])
    for number in range(values):
        cores.propose(leader, f"v{number}")
    cores.advance(100)
    for name in names[:-1]:
        take_snapshot(cores, cores.nodes[name])
        delete_prefix(cores, cores.nodes[name])
    return leader


def until(cores: Cores, done: Callable[[], bool], ms: int = 4000) -> None:
    for _ in range(ms // 5):
        if done():
            return
        cores.advance(5)
    raise AssertionError("it never came to that")


def interrupt(cores: RecordingCores, reader: str, parts: int) -> None:
    """Deliver that many parts to the reader, then cut it off during the download."""
    real = cores._respond
    seen = 0

    def respond(node: Node, output: object) -> None:
        nonlocal seen
        response = getattr(output, "response", None)
        if isinstance(response, FetchSnapshotResponse):
            seen += 1
            if seen > parts:
                cores.partition([n for n in cores.nodes if n != reader], [reader])
        real(node, output)  # type: ignore[arg-type]

    cores._respond = respond  # type: ignore[method-assign]
    cores.heal()
    cores.advance(3000)
    cores._respond = real  # type: ignore[method-assign]
    assert len(cores.written(reader)) == parts
