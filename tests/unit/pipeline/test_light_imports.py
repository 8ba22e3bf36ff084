"""Processes that Spark starts import no more than they use: each import is repeated in every worker."""

import subprocess
import sys

import pytest

_CORE, _CLIENT = "quorum_node.raft.replica", "quorum_node.protocol.apis"
_IMPORTED = """
import sys
import pyspark.worker, {module}
found = [each for each in {names} if each in sys.modules]
assert not found, found
"""


@pytest.mark.parametrize(
    ("module", "names"),
    [
        # Spark imports all sources to find one, and again to read with it.
        ("quorum_pipeline.spark.log_source", (_CORE, _CLIENT, "pyarrow", "numba")),
        ("quorum_pipeline.spark.archive_source", (_CORE, _CLIENT, "pyarrow", "numba")),
        ("quorum_pipeline.spark.snapshot_source", (_CORE, _CLIENT, "pyarrow", "numba")),
        ("quorum_pipeline.spark.state_source", (_CORE, _CLIENT, "pyarrow", "numba")),
        # Workers import the modules of jobs.
        ("quorum_pipeline.spark.timeline_job", (_CORE, _CLIENT, "pyarrow.dataset")),
        ("quorum_pipeline.spark.audit_job", (_CORE, _CLIENT, "pyarrow.dataset")),
        ("quorum_pipeline.spark.versions_job", (_CORE, _CLIENT, "pyarrow.dataset")),
        ("quorum_pipeline.files.archive_tasks", (_CORE, _CLIENT, "pyarrow.dataset")),
        ("quorum_pipeline.files.log_directory", (_CORE, _CLIENT, "pyarrow", "numba")),
    ],
)
def test_module_of_a_worker_loads_only_what_it_uses(module: str, names: tuple[str, ...]) -> None:
    code = _IMPORTED.format(module=module, names=names)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
