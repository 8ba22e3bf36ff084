"""A restored directory: the state of the moment, with one voter; the node's own storage opens it."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.records import metadata as md
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import parse_uuid
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.partition_directory import open_partition
from quorum_pipeline.__main__ import main
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files import restored_directory
from quorum_pipeline.files.restored_directory import FirstVoter, write_directory
from quorum_pipeline.files.snapshot_file import SnapshotFile, open_snapshot
from quorum_pipeline.state.moment import Moment
from support.replayed_directory import replay_directory
from support.written_log import LogWriter, write_history

UUID_TEXT = "AAAAAAAAAAAAAAAAAAAABQ"


@pytest.mark.requirement("SP-07")
def test_restored_directory_is_opened_by_the_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = LogWriter(tmp_path / "old")
    images = write_history(writer)
    writer.close()
    offset, out = sorted(images)[6], tmp_path / "new"
    arguments = ["restore", "--log", str(tmp_path / "old"), "--at-offset", str(offset)]
    arguments += ["--output", str(out), "--replica-uuid", UUID_TEXT]
    assert main([*arguments, "--voter", "7@host:9093"]) == 0
    assert f"restored offset {offset}" in capsys.readouterr().out
    opened = open_partition(
        out, 0, parse_uuid(UUID_TEXT), cluster_id="cluster", segment_bytes=1 << 20
    )
    assert opened.log.start_offset == opened.log.end_offset == offset
    opened.log.close()
    before = replay_directory(tmp_path / "old", Moment(offset=offset))
    after = replay_directory(out, Moment())
    assert after.image == before.image
    assert after.voters is not None
    assert [(each.key.id, str(each.endpoints[0])) for each in after.voters.voters] == [
        (7, "CONTROLLER://host:9093")
    ]
    assert after.voters.initial_voters == 1, "the restore waits for other nodes"
    assert after.voters.log_position == (offset - 1, before.epoch)
    assert "node.id=7" in (out / "meta.properties").read_text()
    assert main([*arguments, "--voter", "7@host:9093"]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main([*arguments, "--voter", "host:9093"]) == 2
    assert "'host:9093' is not id@host:port" in capsys.readouterr().err
    named = [*arguments, "--voter", "7@host:9093", "--cluster-id", "another"]
    named[named.index("--output") + 1] = str(tmp_path / "named")
    assert main(named) == 0
    assert "cluster.id=another" in (tmp_path / "named" / "meta.properties").read_text()


@pytest.mark.requirement("SP-07")
def test_restored_data_must_equal_the_requested_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that returns other data than was written, with valid checksums."""
    states = []
    for name in ("wanted", "other"):
        writer = LogWriter(tmp_path / name)
        writer.append(md.TopicRecord(name=name, topic_id=UUID(int=5)))
        writer.close()
        states.append(replay_directory(tmp_path / name, Moment()))
    wanted, other = states

    def with_changed_bytes(path: Path) -> SnapshotFile:
        path.write_bytes(b"".join(other.snapshot()))
        return open_snapshot(path)

    monkeypatch.setattr(restored_directory, "open_snapshot", with_changed_bytes)
    voter = FirstVoter(1, parse_uuid(UUID_TEXT), "host", 9093)
    with pytest.raises(PipelineError, match="was read back and differs from what was written"):
        write_directory(tmp_path / "out", wanted, voter, "c")


@pytest.mark.requirement("K595-07", "SP-07")
@pytest.mark.parametrize("epoch", [MAX_EPOCH, 2**31 - 2, 2**31 - 1])
def test_epoch_that_cannot_be_raised_requires_a_new_cluster(
    epoch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same cluster nothing is restored; in a new one epochs start again, and the node opens it."""
    writer = LogWriter(tmp_path / "old")
    write_history(writer)
    writer.epoch = epoch
    writer.append(md.TopicRecord(name="last", topic_id=UUID(int=5)))
    writer.close()
    arguments = ["restore", "--log", str(tmp_path / "old"), "--replica-uuid", UUID_TEXT]
    arguments += ["--voter", "7@host:9093", "--output"]
    assert main([*arguments, str(tmp_path / "same")]) == 2
    assert "epochs can't be lowered" in capsys.readouterr().err
    out = tmp_path / "new"
    assert main([*arguments, str(out), "--cluster-id", "new"]) == 0
    assert f"epoch {epoch}" in capsys.readouterr().out
    opened = open_partition(out, 0, parse_uuid(UUID_TEXT), cluster_id="new", segment_bytes=1 << 20)
    opened.log.close()
    assert opened.newest is not None
    assert opened.newest.id.epoch == 1
    after = replay_directory(out, Moment())
    assert after.image == replay_directory(tmp_path / "old", Moment()).image
    assert after.voters is not None
    assert after.voters.cluster_id == "new"


def test_a_snapshot_that_no_node_can_replay_is_not_restored(tmp_path: Path) -> None:
    """Written and read without an error, with checksums that are right."""

    class Contradicting:
        end_offset, epoch, id = 5, 1, SnapshotId(5, 1)

        def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
            change = md.PartitionChangeRecord(partition_id=0, topic_id=UUID(int=5))
            yield from encode_snapshot(
                self.id, SnapshotBounds(5, 1, voters), [md.encode_metadata(change)]
            )

    voter = FirstVoter(1, parse_uuid(UUID_TEXT), "host", 9093)
    with pytest.raises(
        PipelineError, match=r"checkpoint, byte \d+: a change of partition .*, which does not exist"
    ):
        write_directory(tmp_path / "out", Contradicting(), voter, "c")
    assert not (tmp_path / "out").exists(), "a node could start on it"


class Interrupted(BaseException):
    """Like a signal."""


@pytest.mark.parametrize("existed", [False, True])
def test_interrupted_restore_leaves_nothing_on_which_a_node_could_start(
    tmp_path: Path, existed: bool
) -> None:
    class Ending:
        end_offset, epoch, id = 5, 1, SnapshotId(5, 1)

        def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
            assert list(out.iterdir())
            raise Interrupted
            yield

    out, voter = tmp_path / "out", FirstVoter(1, parse_uuid(UUID_TEXT), "host", 9093)
    if existed:
        out.mkdir()
    with pytest.raises(Interrupted):
        write_directory(out, Ending(), voter, "c")
    assert out.exists() == existed
    assert not existed or not list(out.iterdir())
    with pytest.raises(Interrupted):  # and it can be repeated
        write_directory(out, Ending(), voter, "c")


def test_voter_id_that_no_record_can_hold_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["restore", "--log", str(tmp_path / "node"), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--voter", "2147483648@h:1"]) == 2
    assert "2147483648 is not a node id" in capsys.readouterr().err


def test_restore_into_the_directory_of_the_log_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    arguments = ["restore", "--log", str(tmp_path / "node"), "--voter", "1@h:1"]
    assert main([*arguments, "--output", str(tmp_path / "node" / "new")]) == 2
    assert "which must not be changed" in capsys.readouterr().err
