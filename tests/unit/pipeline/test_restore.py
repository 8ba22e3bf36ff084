"""A restored directory: the state of the moment, with one voter; the node's own storage opens it."""

from pathlib import Path

import pytest

from quorum_node.records.identity import parse_uuid
from quorum_node.storage.partition_directory import open_partition
from quorum_pipeline.__main__ import main
from quorum_pipeline.files.replay import Moment, replay_directory
from support.written_log import LogWriter, write_history

UUID_TEXT = "AAAAAAAAAAAAAAAAAAAABQ"


@pytest.mark.requirement("SP-07")
def test_a_directory_that_the_node_opens(
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
    assert "node.id=7" in (out / "meta.properties").read_text()
    assert main([*arguments, "--voter", "7@host:9093"]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main([*arguments, "--voter", "host:9093"]) == 2
    assert "write it as 1@host:9093" in capsys.readouterr().err
