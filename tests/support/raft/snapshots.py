"""The snapshots of one node in memory, in the real format, checked by the real reader."""

from dataclasses import dataclass, field, replace

from crc32c import crc32c

from quorum_node.raft import LogState
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import SnapshotInstalled, SnapshotRejected
from quorum_node.raft.messages import FetchSnapshotResponse
from quorum_node.raft.outputs import (
    DropPartialSnapshot,
    FinishSnapshot,
    Output,
    WriteSnapshotChunk,
)
from quorum_node.records.batches import decode_records
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_format import (
    CorruptSnapshot,
    SnapshotBounds,
    SnapshotReader,
    encode_snapshot,
)
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId


@dataclass(slots=True)
class NodeSnapshots:
    """`whole`: verified ones; `partial`: downloads; `start`: the one that the log begins behind.

    `tells_checksum` False: like a stock leader. `withheld`: not served any more.
    """

    whole: dict[SnapshotId, bytes] = field(default_factory=dict)
    partial: dict[SnapshotId, bytes] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)
    start: SnapshotId = NO_SNAPSHOT
    tells_checksum: bool = True
    withheld: set[SnapshotId] = field(default_factory=set)

    def write(self, id: SnapshotId, voters: VotersRecord | None, values: list[str]) -> None:
        """A local snapshot of these texts."""
        bounds = SnapshotBounds(0, 1 if voters is not None else 0, voters)
        self.whole[id] = b"".join(encode_snapshot(id, bounds, [text.encode() for text in values]))

    def values(self) -> list[str]:
        """Texts of the snapshot before the start of the log."""
        return self.values_of(self.start) if self.start != NO_SNAPSHOT else []

    def values_of(self, id: SnapshotId) -> list[str]:
        batches = SnapshotReader(id).feed(self.whole[id])
        return [
            (record.value or b"").decode()
            for batch in batches
            if not batch.header.is_control
            for record in decode_records(batch)
        ]

    @property
    def latest(self) -> SnapshotId | None:
        return max(self.whole, default=None)

    def bounds(self, id: SnapshotId) -> SnapshotBounds:
        reader = SnapshotReader(id)
        reader.feed(self.whole[id])
        return reader.finish()

    def log_state(
        self, end_offset: int, epoch_starts: list[tuple[int, int]], control_batches: list[bytes]
    ) -> LogState:
        """The state that storage finds at open."""
        latest = self.latest
        bounds = self.bounds(latest) if latest is not None else SnapshotBounds(0, 1)
        partial = next(((found, len(data)) for found, data in self.partial.items()), None)
        return LogState(
            self.start,
            end_offset,
            epoch_starts,
            control_batches,
            latest,
            bounds.voters,
            bounds.kraft_version,
            partial,
        )

    def execute(self, output: Output) -> SnapshotInstalled | SnapshotRejected | None:
        """Execute an output of a download; returns the resulting event, if any."""
        match output:
            case WriteSnapshotChunk():
                here = self.partial.get(output.id, b"")[: output.position]
                assert len(here) == output.position, "a gap in a download"
                self.partial[output.id] = here + output.data
            case DropPartialSnapshot():
                self.partial.pop(output.id, None)
            case FinishSnapshot():
                return self._finish(output)
            case _:
                pass
        return None

    def _finish(self, output: FinishSnapshot) -> SnapshotInstalled | SnapshotRejected:
        data = self.partial.pop(output.id)
        reader = SnapshotReader(output.id)
        try:
            if output.checksum not in (None, crc32c(data)) or len(data) != output.size_bytes:
                raise CorruptSnapshot("other bytes than the leader's")
            reader.feed(data)
            bounds = reader.finish()
        except CorruptSnapshot as error:
            self.rejected.append(str(error))
            return SnapshotRejected(output.id, str(error))
        self.whole[output.id] = data
        return SnapshotInstalled(output.id, bounds.voters, bounds.kraft_version)

    def filled(self, response: FetchSnapshotResponse) -> FetchSnapshotResponse:
        """The answer with the requested bytes."""
        part = response.part
        assert part is not None
        data = self.whole.get(part.id)
        if data is None or part.id in self.withheld:
            return replace(response, error=RaftError.SNAPSHOT_NOT_FOUND, part=None)
        if not 0 <= part.position < len(data):
            return replace(response, error=RaftError.POSITION_OUT_OF_RANGE, part=None)
        return replace(
            response,
            part=None,
            size_bytes=len(data),
            data=data[part.position : part.position + part.max_bytes],
            checksum=crc32c(data) if self.tells_checksum else None,
        )
