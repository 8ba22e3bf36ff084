"""The same command on any cluster: what Spark is told from outside stays as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TELL = """
from quorum_pipeline.spark.session import open_session

NAMES = ("spark.master", "spark.app.name", "spark.sql.shuffle.partitions")
NAMES += ("spark.ui.showConsoleProgress", "spark.sql.session.timeZone")
for name, master in (("the job", None), ("another", "local[2]")):
    session = open_session(name, master)
    conf = session.sparkContext.getConf()
    print("found", *map(conf.get, NAMES), sep="|")
    session.stop()
"""
_DEFAULTS = """
spark.master local[1]
spark.sql.shuffle.partitions 3
"""


@pytest.mark.long
@pytest.mark.requirement("SP-08")
def test_defaults_of_a_cluster_are_kept_and_a_master_that_is_named_goes_first(
    tmp_path: Path,
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(_DEFAULTS)
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _TELL],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    found = [line.split("|")[1:] for line in done.stdout.splitlines() if line.startswith("found|")]
    assert found == [
        ["local[1]", "the job", "3", "false", "UTC"],
        ["local[2]", "another", "3", "false", "UTC"],
    ]
