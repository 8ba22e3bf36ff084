"""A log as printed by stock Kafka's `kafka-dump-log`, for comparisons with our readers.

Owns parsing the tool's output. Must not know what is compared.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import stock_kafka

_RECORD = re.compile(
    r"^\| offset: (\d+) CreateTime: (\d+) .*?headerKeys: \[\] (\w+)(?:: | )(.*)$", re.MULTILINE
)
_BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) .*? position: (\d+) .*? size: (\d+) ", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """`fields` as the tool writes them, with Kafka's names."""

    offset: int
    time_ms: int
    type: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """Offsets from `base_offset` to `last_offset`, both in it; where it stands in its file."""

    base_offset: int
    last_offset: int
    position: int
    size_bytes: int


def dumped(segments: Sequence[Path]) -> str:
    """What the tool prints of these files."""
    files = ",".join(map(str, segments))
    tool = [stock_kafka.DUMP_LOG, "--cluster-metadata-decoder", "--files", files]
    done = stock_kafka.run_tool(*tool, timeout_seconds=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records_of(text: str) -> list[DumpedRecord]:
    """Every record, control records too."""
    found = []
    for offset, time_ms, name, rest in _RECORD.findall(text):
        document = json.loads(rest)
        plain = name == "payload"
        kind, fields = (document["type"], document["data"]) if plain else (name, document)
        found.append(DumpedRecord(int(offset), int(time_ms), kind, fields))
    return found


def batches_of(text: str) -> list[DumpedBatch]:
    """Every batch."""
    return [DumpedBatch(*map(int, found)) for found in _BATCH.findall(text)]
