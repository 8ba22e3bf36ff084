"""Reads versions with a Spark that has Delta: prints commits of the tables, and those that differ from the Parquet files.

Usage: read_tables.py VERSIONS DELTA TABLE...
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from quorum_pipeline.files.version_files import VersionStore
from quorum_pipeline.spark.session import open_session
from quorum_pipeline.spark.version_frame import history_frame, version_frame, with_ends
from quorum_pipeline.state.tables import table_named

_LOCAL = "local[2]"
_FEW_ROWS = {"spark.sql.shuffle.partitions": "2"}


def main(versions: str, delta: str, tables: list[str]) -> None:
    session = open_session("read tables", _LOCAL, _FEW_ROWS, delta=True)
    found: dict[str, Any] = {"differ": []}
    for table in tables:
        history = session.sql(f"DESCRIBE HISTORY delta.`{delta}/{table}`").orderBy("version")
        commits = [row.userMetadata for row in history.collect()]
        found[table] = {"history": commits}
        steps = [each.offsets.end for each in VersionStore(Path(versions)).stored()]
        for number, commit in enumerate(commits):
            end = 0 if commit is None else int(commit.rpartition("-")[2])
            last = max((each for each in steps if each <= end), default=0)
            if rows(session, delta, table, number) != up_to(session, versions, table, last):
                found["differ"].append([table, number])
        if table == "configs":
            last_commits = version_frame(session, path=delta, table=table).orderBy("valid_from")
            found[table]["last values"] = [row.value for row in last_commits.tail(2)]
    session.stop()
    print(json.dumps(found))


def rows(session: SparkSession, delta: str, table: str, number: int) -> list[tuple[Any, ...]]:
    frame = history_frame(session, path=delta, table=table, version_as_of=number)
    return sorted((tuple(map(hashable, row)) for row in frame.collect()), key=repr)


def up_to(session: SparkSession, versions: str, table: str, end: int) -> list[tuple[Any, ...]]:
    """The versions of the Parquet files that begin up to an offset, with the ends that were known then."""
    stored = version_frame(session, path=versions, table=table).where(f"valid_from <= {end}")
    if end == 0:
        stored = stored.where("false")
    frame = with_ends(stored, table_named(table).key)
    return sorted((tuple(map(hashable, row)) for row in frame.collect()), key=repr)


def hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
