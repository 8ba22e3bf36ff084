"""The daemon for Python workers on an executor: Spark's daemon, with imports done before it forks workers.

This saves half a second of CPU per worker. `spark.python.daemon.module` names it.
"""

import gc
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

from pyspark import daemon

from quorum_node.core_dumps import forbid_core_dumps


def prepare() -> None:
    """Forbid core dumps, and import the modules that workers need. No thread may run when workers are forked, so numpy and Arrow may start none."""
    forbid_core_dumps()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

    from quorum_pipeline.files.loop_cache import use_loop_cache

    use_loop_cache()

    import quorum_pipeline.files.archive_part
    import quorum_pipeline.files.delta_builder
    import quorum_pipeline.files.log_rows  # noqa: F401
    from quorum_pipeline.rows.loops import compile_all

    compile_all()
    # Objects loaded so far are permanent. Garbage collection in the children would free none and
    # copy every page.
    gc.freeze()


def freezing(run: Callable[..., int]) -> Callable[..., int]:
    """Return the function that runs a task, so that Spark's collection of garbage after each task does not visit the modules that
    a task has loaded: that takes longer than most tasks.
    """

    @wraps(run)
    def running(*arguments: Any) -> int:
        code = run(*arguments)
        # Of a task, only what modules keep is left.
        gc.collect()
        gc.freeze()
        return code

    return running


if __name__ == "__main__":
    prepare()
    # Spark calls it by this name in each worker, for each task.
    daemon.worker = freezing(daemon.worker)
    daemon.manager()
