"""Processes that Spark starts import no more than they use: each import is repeated in every worker."""

import subprocess
import sys

import pytest

_CORE, _CLIENT = "quorum_node.raft.replica", "quorum_node.protocol.apis"
_IMPORTED = """
import importlib, sys
import pyspark.worker
for module in {modules}:
    importlib.import_module(module)
    found = [each for each in {names} if each in sys.modules]
    assert not found, (module, found)
"""
_SOURCES = (
    # Spark imports all sources to find one, and again to read with it.
    "quorum_pipeline.spark.log_source",
    "quorum_pipeline.spark.archive_source",
    "quorum_pipeline.spark.snapshot_source",
    "quorum_pipeline.spark.state_source",
    "quorum_pipeline.files.log_directory",
)
_JOBS = (
    # Workers import the modules of jobs.
    "quorum_pipeline.spark.timeline_job",
    "quorum_pipeline.spark.audit_job",
    "quorum_pipeline.spark.versions_job",
    "quorum_pipeline.files.archive_tasks",
)


@pytest.mark.parametrize(
    ("modules", "names"),
    [
        pytest.param(_SOURCES, (_CORE, _CLIENT, "pyarrow", "numba"), id="sources"),
        pytest.param(_JOBS, (_CORE, _CLIENT, "pyarrow.dataset"), id="jobs"),
    ],
)
def test_modules_of_a_worker_load_only_what_they_use(
    modules: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """All in one process, as starting one takes longer than the imports; what none has loaded, each of them has not."""
    code = _IMPORTED.format(modules=modules, names=names)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
