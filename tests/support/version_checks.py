"""Versions of the rows of a log, bucket by bucket, and the rows that a node has at an offset."""

from collections.abc import Iterable
from typing import Any

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records import metadata as md
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.spark.state_parts import Part
from quorum_pipeline.state.tables import STATE_TABLES, Row
from quorum_pipeline.state.versions import Version, VersionedBucket, buckets_of, columns_of

Tables = dict[str, dict[tuple[Any, ...], Row]]


def versions_of(values: list[bytes], count: int) -> tuple[list[Version], int | None]:
    """All versions, and the offset of the first record that no node replays."""
    buckets = [VersionedBucket(number, count) for number in range(count)]
    wrong: int | None = None
    found: list[Version] = []
    for offset, value in enumerate(values):
        try:
            record = md.decode_metadata(value)
            for number in buckets_of(record, count):
                found += buckets[number].take(offset, 1000 * offset, record)
        except (MalformedRecord, ValueError):
            wrong = offset
            break
    return found, wrong


def tables_at(versions: Iterable[Version], offset: int) -> Tables:
    """The rows that are valid at an offset; of one row there must not be two."""
    found: Tables = {table.name: {} for table in STATE_TABLES}
    for each in sorted(versions, key=lambda version: version.valid_from):
        if each.valid_from > offset:
            break
        rows = found[each.table]
        if each.row is None:
            del rows[each.key]
        else:
            assert rows.get(each.key) != each.row, "a version does not begin with a change"
            rows[each.key] = each.row
    return found


def tables_of(image: ClusterImage) -> Tables:
    """As a node has them; without voters, which are not in the image."""
    return {
        table.name: {
            tuple(row[name] for name in table.key): {name: row[name] for name in columns_of(table)}
            for row in table.rows(Part(image))
        }
        for table in STATE_TABLES
    }
