"""Reads of more bytes than are read from a file at once."""

from pathlib import Path
from random import Random

import pytest

from quorum_node.storage.broker import data_segment
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from support.data_batches import data_batch

PIECE_BYTES = 400


@pytest.mark.parametrize("seed", range(5))
def test_reads_in_pieces_return_what_one_read_returns(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    log = PartitionLog.open(tmp_path, LogSettings(index_interval_bytes=200))
    batches = []
    for _ in range(40):
        offset = batches[-1].end_offset + random.choice((0, 0, 2)) if batches else 0
        size = random.choice((1, 30, 30, 200, PIECE_BYTES, 3 * PIECE_BYTES))
        batches.append(data_batch(offset, random.randrange(1, 4), value_bytes=size))
    log.append(batches)
    asked = []
    for _ in range(200):
        offset = random.randrange(log.end_offset)
        limit = random.randrange(offset, log.end_offset + 1)
        max_bytes = random.choice((0, 1, PIECE_BYTES, random.randrange(10_000), 1 << 20))
        asked.append((offset, max_bytes, limit, random.choice((1, 3, 1_000))))
    whole = [log.read_batches(*each) for each in asked]
    for (offset, max_bytes, limit, most), found in zip(asked, whole, strict=True):
        fit, size_bytes = [], 0
        for each in batches:
            if each.end_offset <= offset:
                continue
            size_bytes += each.size_bytes
            is_large = bool(fit) and size_bytes > max_bytes
            if is_large or each.end_offset > limit or len(fit) == most:
                break
            fit.append(each)
        assert found.data == b"".join(each.data for each in fit)  # type: ignore[misc]
        assert found.batch_count == len(fit)
        assert found.end_offset == (fit[-1].end_offset if fit else offset)
    monkeypatch.setattr(data_segment, "_PIECE_BYTES", PIECE_BYTES)
    assert [log.read_batches(*each) for each in asked] == whole
    log.close()
