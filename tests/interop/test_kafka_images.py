"""The same records, replayed by stock Kafka and by us, amount to the same."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.metadata import (
    AnyMetadata,
    ClientQuotaRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    decode_metadata,
    record_type_name,
)
from support import stock_kafka
from support.metadata_histories import histories

pytestmark = pytest.mark.interop

HISTORIES = 100


def random_logs() -> list[list[bytes]]:
    """The same ones in every run."""
    found: list[list[bytes]] = []

    @settings(
        max_examples=HISTORIES, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(histories(max_size=60, transactions=False, newer=False))
    def collect(values: list[bytes]) -> None:
        found.append(values)

    collect()
    return found


@pytest.mark.requirement("K631-05", "K631-06")
def test_stock_kafka_replays_the_same_image(tmp_path: Path) -> None:
    logs = random_logs()
    file = tmp_path / "logs"
    file.write_text("".join("".join(f"{value.hex()}\n" for value in log) + "end\n" for log in logs))
    done = stock_kafka.run_source("Images.java", str(file))
    assert done.returncode == 0, done.stderr
    theirs = done.stdout.removesuffix("end\n").split("end\n")
    assert len(theirs) == len(logs)
    kinds: set[str] = set()
    for log, lines in zip(logs, theirs, strict=True):
        image = ClusterImage().replay_all(map(decode_metadata, log))
        assert not image.left_out
        ours = {_in_order(value) for value in image.snapshot_records()}
        assert ours == {_in_order(bytes.fromhex(line)) for line in lines.split()}
        kinds |= {record_type_name(value[1]) for value in image.snapshot_records()}
    assert len(kinds) == 11, f"every kind of entity came up: {sorted(kinds)}"


def _in_order(value: bytes) -> tuple[int, AnyMetadata]:
    """Type and version with the record; stock Kafka keeps some lists in the order of a hash."""
    record = decode_metadata(value)
    match record:
        case RegisterBrokerRecord():
            record = replace(
                record,
                end_points=tuple(sorted(record.end_points, key=lambda each: each.name)),
                features=tuple(sorted(record.features, key=lambda each: each.name)),
                log_dirs=tuple(sorted(record.log_dirs)),
            )
        case RegisterControllerRecord():
            record = replace(
                record,
                end_points=tuple(sorted(record.end_points, key=lambda each: each.name)),
                features=tuple(sorted(record.features, key=lambda each: each.name)),
            )
        case ClientQuotaRecord():
            parts = tuple(sorted(record.entity, key=lambda each: each.entity_type))
            record = replace(record, entity=parts)
    return value[2], record
