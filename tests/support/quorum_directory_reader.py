"""A `CommittedLog` that reads a replica's directory, one batch at a time, in place of a leader's log."""

from pathlib import Path

from quorum_node.client.committed_log import Committed, CommittedLogError, SnapshotDeleted
from quorum_node.records.batches import Batch, split_batches
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name


class DirectoryReader:
    """Of a directory that `LogWriter` wrote."""

    leader, error = "controller-1:9093", CommittedLogError

    def __init__(self, root: Path) -> None:
        self.directory = root / "__cluster_metadata-0"
        self.gone = 0
        """Number of snapshot downloads that are cut short, as when the leader has another snapshot."""

    def cluster_id(self) -> str:
        return "cluster"

    def newest_snapshot(self) -> SnapshotId | None:
        found = [parse_snapshot_name(each.name) for each in self.directory.iterdir()]
        return max((each for each in found if each is not None), default=None)

    def snapshot_part(self, id: SnapshotId, position: int) -> tuple[bytes, int]:
        if self.gone:
            self.gone -= 1
            raise SnapshotDeleted("gone")
        data = (self.directory / id.file_name).read_bytes()
        return data[position : position + 100], len(data)

    def committed(self) -> Committed:
        return Committed(0, self._batches()[-1].header.end_offset)

    def read(self, offset: int, end_offset: int) -> list[Batch]:
        return [each for each in self._batches() if each.header.end_offset > offset][:2]

    def _batches(self) -> list[Batch]:
        files = sorted(self.directory.glob("*.log"))
        return [batch for each in files for batch in split_batches(each.read_bytes())[0]]
