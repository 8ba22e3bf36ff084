"""Versions of rows as DataFrames: computed by executors, and read from what the command wrote."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.archive.layout import MARKER
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.version_files import VersionStore
from quorum_pipeline.spark.frames import state_frame
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.spark.version_frame import history_frame
from quorum_pipeline.spark.versions_job import LogVersions
from quorum_pipeline.spark.versions_run import add_versions
from quorum_pipeline.state.tables import table_named
from quorum_pipeline.state.versions import columns_of
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history

_VIEW = """
SELECT * FROM (
  SELECT *, lead(valid_from) OVER (PARTITION BY topic_id, partition_id ORDER BY valid_from) AS valid_to
  FROM parquet.`{0}/offsets=*/partitions`)
WHERE NOT deleted AND valid_from <= 52 AND (valid_to IS NULL OR valid_to > 52)
"""


@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_versions_are_the_states_at_every_offset(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    log, to = str(writer.directory), tmp_path / "versions"
    write_archive(tmp_path / "archive", writer.directory, 0, 30, writer.end_offset, deltas=True)
    stages = SparkStages(spark.sparkContext)
    add_versions(stages, LogVersions(writer.directory), VersionStore(to), 40, lambda end: None)
    assert len(VersionStore(to).stored()) == 2
    for table in map(table_named, ("partitions", "voters")):
        found = [
            history_frame(spark, path=str(path), table=table.name)
            for path in (to, tmp_path / "archive", log)
        ]
        rows = [sorted(each.collect(), key=repr) for each in found]
        assert rows[0] == rows[1] == rows[2], table.name
        assert found[0].schema.fieldNames() == found[1].schema.fieldNames()
        for offset in (52, writer.end_offset):
            valid = found[0].where(
                f"valid_from <= {offset} AND (valid_to IS NULL OR valid_to > {offset})"
            )
            at = {"path": log, "table": table.name, "versionAsOf": str(offset)}
            columns = list(columns_of(table))
            expected = state_frame(spark, **at).select(columns).collect()
            assert sorted(valid.select(columns).collect(), key=repr) == sorted(expected, key=repr)
    other = shutil.copytree(to, tmp_path / "no pattern [1] {a,b}*?")
    of_other = history_frame(spark, path=str(other), table="partitions")
    assert of_other.count() == history_frame(spark, path=str(to), table="partitions").count()
    rows = spark.sql(_VIEW.format(to)).collect()
    assert [(row.partition_id, row.leader) for row in rows] == [(0, 2), (1, 2)]
    (first, *_) = sorted(to.glob("offsets=*"))
    (first / MARKER).unlink()
    with pytest.raises(PipelineError, match="is damaged or missing"):
        history_frame(spark, path=str(to), table="topics")
