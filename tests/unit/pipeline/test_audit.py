"""An audit of three replicas: nothing is found in sound ones, and one flipped bit in one of them is found and named."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.records import metadata as md
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_pipeline.__main__ import main
from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.normalized_order import with_sorted_lists
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.snapshot_file import open_snapshot
from quorum_pipeline.state.moment import Moment
from support.audited import audit
from support.replayed_directory import replay_directory
from support.written_log import LogWriter, broker, write_history


@pytest.fixture
def replicas(tmp_path: Path) -> list[Path]:
    """Equal logs; two of the replicas have a snapshot of one offset, the third has another one."""
    writer = LogWriter(tmp_path / "a", segment_bytes=800)
    for number in range(5):
        writer.append(*[md.NoOpRecord()] * (number + 1))
    early = writer.snapshot()
    write_history(writer)
    late = writer.snapshot()
    writer.elect(1)
    writer.close()
    for name in ("b", "c"):
        shutil.copytree(tmp_path / "a", tmp_path / name)
    for name, gone in (("a", early), ("b", early), ("c", late)):
        (tmp_path / name / "__cluster_metadata-0" / gone.file_name).unlink()
    return [tmp_path / name for name in ("a", "b", "c")]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << position % 8
    path.write_bytes(content)


def findings(replicas: list[Path]) -> tuple[Finding, ...]:
    return audit(replicas).findings


def test_audit_of_valid_replicas_finds_nothing(replicas: list[Path]) -> None:
    found = audit(replicas)
    assert found.findings == ()
    log = open_log(replicas[0])
    assert found.matching.committed_end == log.end_offset()
    assert found.matching.compared * 3 == found.batches
    assert (found.snapshots, found.replayed) == (3, 3)
    assert audit(replicas[:1]).findings == ()


@pytest.mark.requirement("SP-04")
def test_flipped_bit_in_a_segment_is_reported(replicas: list[Path]) -> None:
    """In every byte of one batch: the checksum covers most, log matching the rest."""
    segment = open_log(replicas[1]).segments[1]
    original = segment.path.read_bytes()
    size = 12 + int.from_bytes(original[8:12], "big")
    assert size < len(original)
    for position in range(0, size, 1 if size < 100 else 3):
        flip(segment.path, position)
        found = findings(replicas)
        assert found, f"byte {position}"
        assert {each.replica for each in found} == {str(replicas[1])}, f"byte {position}"
        assert {each.file for each in found} <= {segment.path.name, ""}
        assert found[0].offset == segment.base_offset
        segment.path.write_bytes(original)
    assert findings(replicas) == ()


@pytest.mark.requirement("SP-04")
def test_flipped_bit_in_a_snapshot_is_reported(replicas: list[Path]) -> None:
    for replica in replicas:
        log = open_log(replica)
        path = log.path / log.snapshots[0].file_name
        original = path.read_bytes()
        for position in (0, 9, 13, 30, 70, len(original) // 2, len(original) - 1):
            flip(path, position)
            (found,) = findings(replicas)
            assert (found.replica, found.file) == (str(replica), path.name)
            assert found.offset == log.snapshots[0].end_offset
            assert found.position is not None
            assert found.position <= position
            path.write_bytes(original)


@pytest.mark.requirement("SP-04")
def test_valid_snapshot_with_a_different_state_is_reported(
    replicas: list[Path], tmp_path: Path
) -> None:
    """Every checksum in it is right; only its state differs from the log's."""
    named = open_log(replicas[2]).snapshots[0]
    other = LogWriter(tmp_path / "other")
    other.append(*[md.NoOpRecord()] * (named.end_offset - 1))
    other.append(md.TopicRecord(name="wrong", topic_id=md.LOST))
    assert other.snapshot() == named
    target = open_log(replicas[2]).path / named.file_name
    target.write_bytes((other.directory / named.file_name).read_bytes())
    (found,) = findings(replicas)
    assert (found.replica, found.file) == (str(replicas[2]), target.name)
    assert "its state differs from that of the log" in found.what


def rewritten(path: Path, other: LogWriter, voters: VotersRecord | None = None) -> None:
    """The snapshot in `path` gets the present state of `other`; every checksum in it is right."""
    named = open_snapshot(path).id
    bounds = SnapshotBounds(open_snapshot(path).bounds().last_contained_log_timestamp_ms, 1, voters)
    records = list(replay_directory(other.directory, Moment()).image.snapshot_records())
    path.write_bytes(b"".join(encode_snapshot(named, bounds, records)))


@pytest.mark.requirement("SP-04", "K595-30")
def test_differing_snapshot_among_three_of_one_offset_is_reported(tmp_path: Path) -> None:
    """Also where no log reaches back to it: then only the others can show it. Voters are a part of the state."""
    writer = LogWriter(tmp_path / "a", segment_bytes=300)
    write_history(writer)
    name = writer.snapshot(drop_log=True).file_name
    writer.elect(3)
    writer.close()
    for other in ("b", "c"):
        shutil.copytree(tmp_path / "a", tmp_path / other)
    paths = [tmp_path / each for each in ("a", "b", "c")]
    assert audit(paths).findings == ()
    snapshot = open_log(paths[1]).path / name
    sound, voters = snapshot.read_bytes(), open_snapshot(snapshot).bounds().voters
    assert voters is not None
    fewer = replace(voters, voters=voters.voters[:2])
    more = LogWriter(tmp_path / "other")
    more.append(md.TopicRecord(name="wrong", topic_id=md.LOST))
    rewritten(snapshot, more, voters)
    others = f"its state differs from the same snapshot on {paths[0]}, {paths[2]}"
    expected = Finding(str(paths[1]), name, None, writer.end_offset - 1, others)
    assert expected in audit(paths).findings
    snapshot.write_bytes(sound)
    same = LogWriter(tmp_path / "same")
    write_history(same)
    rewritten(snapshot, same, fewer)
    assert expected in audit(paths).findings
    rewritten(snapshot, same, voters)
    assert audit(paths).findings == ()
    assert {each.replica for each in audit(paths[:2]).findings} == set()


def test_log_with_findings_judges_no_snapshot(replicas: list[Path]) -> None:
    """The longest of the others does."""
    flip(open_log(replicas[0]).segments[1].path, 70)
    found = audit(replicas)
    assert {each.replica for each in found.findings} == {str(replicas[0])}
    assert len(found.findings) == 1
    assert found.replayed == 3


def test_log_that_starts_first_judges_all_snapshots(replicas: list[Path], tmp_path: Path) -> None:
    first = tmp_path / "0"
    shutil.copytree(replicas[0], first)
    log = open_log(first)
    (late,) = log.snapshots
    for each, following in pairwise(log.segments):
        if following.base_offset <= late.end_offset:
            each.path.unlink()
    assert open_log(first).start_offset > 0
    found = audit([first, *replicas])
    assert found.findings == ()
    assert (found.snapshots, found.replayed) == (4, 4)


def test_batch_of_another_history_is_reported(tmp_path: Path) -> None:
    """All checksums are right; one replica has other records where the others agree."""
    paths = []
    for name in ("a", "b", "c"):
        writer = LogWriter(tmp_path / name)
        writer.append(md.NoOpRecord())
        writer.append(md.TopicRecord(name="same" if name != "b" else "else", topic_id=md.LOST))
        writer.append(md.NoOpRecord())
        writer.close()
        paths.append(tmp_path / name)
    (found,) = findings(paths)
    assert (found.replica, found.offset) == (str(tmp_path / "b"), 1)
    assert "a different batch (CRC" in found.what
    both = findings(paths[:2])
    assert {each.replica for each in both} == {str(paths[0]), str(paths[1])}


def test_uncommitted_records_may_differ(tmp_path: Path) -> None:
    paths = []
    for number, name in enumerate(("a", "b", "c")):
        writer = LogWriter(tmp_path / name)
        writer.append(md.NoOpRecord())
        if number:
            writer.epoch += number
            writer.append(*[md.NoOpRecord()] * number)
        writer.close()
        paths.append(tmp_path / name)
    found = audit(paths)
    assert found.findings == ()
    assert found.matching.committed_end == 1
    assert len(found.matching.tails) == 2


def deposed(root: Path, *, committed: int = 0) -> list[Path]:
    """Three replicas, of which the first was left behind with two records that were never committed."""
    paths = []
    for name in ("a", "b", "c"):
        writer = LogWriter(root / name)
        writer.elect(1)
        writer.append(broker(1))
        if name == "a":
            writer.append(md.FenceBrokerRecord(id=1, epoch=1))
            writer.append(broker(2))
            if committed:
                writer.record_committed(committed)
        else:
            writer.elect(2)
            writer.append(*[broker(number) for number in range(3, 9)])
            writer.snapshot()
        writer.close()
        paths.append(root / name)
    return paths


def test_records_of_a_deposed_leader_are_no_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It removes them when it fetches again. It judges no snapshot of what came later."""
    paths = deposed(tmp_path)
    found = audit(paths)
    assert found.findings == ()
    assert (found.matching.committed_end, found.matching.sound_ends) == (9, (2, 9, 9))
    assert found.matching.tails == (
        f"{paths[0]} has offsets 2 to 4, where a majority has records of later epochs",
    )
    assert (found.snapshots, found.replayed) == (2, 2)
    assert main(["audit", *map(str, paths)]) == 0
    assert "of later epochs; it was not committed there" in capsys.readouterr().out


def test_record_that_a_replica_knows_to_be_committed_is_missing_on_the_others(
    tmp_path: Path,
) -> None:
    paths = deposed(tmp_path, committed=3)
    found = audit(paths).findings
    assert {(each.replica, each.offset) for each in found} == {
        (str(paths[0]), 2), (str(paths[0]), 3),
    }  # fmt: skip


def test_snapshot_is_judged_by_a_log_that_reaches_it(tmp_path: Path) -> None:
    """Not by one that begins as early and is behind."""
    for name, more in (("behind", 0), ("ahead", 3)):
        writer = LogWriter(tmp_path / name)
        writer.append(*[broker(number) for number in range(1 + more)])
        if more:
            writer.snapshot()
        writer.close()
    found = audit([tmp_path / "behind", tmp_path / "ahead"])
    assert (found.findings, found.snapshots, found.replayed) == ((), 1, 1)


def test_lists_in_different_order_have_one_canonical_form() -> None:
    """As two replicas of stock Kafka may write them; what differs in more than that, differs."""
    features = tuple(
        md.SupportedFeature(name=name, min_supported_version=0, max_supported_version=1)
        for name in "abc"
    )
    end_points = tuple(
        md.NodeEndpoint(name=name, host="h", port=1, security_protocol=0) for name in ("IN", "OUT")
    )

    def encoded(order: int, rack: str = "r") -> bytes:
        record = replace(
            broker(1),
            features=features[::order],
            end_points=end_points[::order],
            log_dirs=(UUID(int=200), UUID(int=300))[::order],
            rack=rack,
        )
        return with_sorted_lists(md.encode_metadata(record, 3))

    assert encoded(1) == encoded(-1)
    assert encoded(1) != encoded(1, "other")
    plain = md.encode_metadata(md.TopicRecord(name="t", topic_id=UUID(int=5)))
    assert with_sorted_lists(plain) == plain


def test_missing_segment_is_reported(replicas: list[Path]) -> None:
    segments = open_log(replicas[2]).segments
    segments[2].path.unlink()
    found = findings(replicas)
    assert {each.replica for each in found} == {str(replicas[2])}
    assert found[0].file == segments[1].path.name
    assert len(found) == 1


@pytest.mark.requirement("SP-04")
def test_log_without_its_beginning_and_without_a_snapshot_is_reported(replicas: list[Path]) -> None:
    log = open_log(replicas[1])
    log.segments[0].path.unlink()
    assert audit([replicas[1]]).findings == (), "a snapshot has the state"
    for each in log.snapshots:
        (log.path / each.file_name).unlink()
    (found,) = audit([replicas[1]]).findings
    start = log.segments[1].base_offset
    assert (found.replica, found.offset) == (str(replicas[1]), 0)
    assert f"offsets 0 to {start} are missing, and no snapshot has their state" in found.what
    assert str(found).startswith(f"{replicas[1]}: offset 0: ")


@pytest.mark.requirement("SP-04")
def test_replica_does_not_agree_with_itself(
    replicas: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given twice it would be a majority."""
    link = tmp_path / "link"
    link.symlink_to(replicas[0])
    for again in (replicas[0], replicas[0] / "__cluster_metadata-0", link):
        assert main(["audit", *map(str, replicas), str(again)]) == 2
        assert "are the same directory: specify each replica once" in capsys.readouterr().err


def test_audit_command(replicas: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(each) for each in replicas]
    assert main(["audit", *names]) == 0
    assert "no problems found" in capsys.readouterr().out
    segment = open_log(replicas[0]).segments[0]
    flip(segment.path, 40)
    assert main(["audit", *names]) == 1
    expected = f"FOUND {names[0]}: {segment.path.name}, byte 0, offset 0: checksum differs"
    assert expected in capsys.readouterr().out
    assert main(["audit", "--json", *names]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[0])["offset"] == 0
    assert main(["audit", *names, "/nowhere"]) == 2
