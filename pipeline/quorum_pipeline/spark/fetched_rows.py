"""Copies files of an archive to the tasks that read them, from any file system that Hadoop supports.

Spark reads a whole file on the executor of its task, and the task's Python worker writes it to a directory that is
deleted after the task. Memory is bounded by the largest file, not by the size of a task.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.fetched import Fetched

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_SCHEME = re.compile(r"^([^:/]+://[^/]*|[^:/]+:)")
_SPECIAL = re.compile(r"[,:*?{}\[\]\\]")
"""Characters that Hadoop interprets as a list of inputs, a scheme, or a pattern."""


def fetched_in(item: Any) -> Fetched | None:
    """Return the task in an item (a tuple) that needs files to be fetched, or None."""
    parts = item if isinstance(item, tuple) else ()
    return next((each for each in parts if isinstance(each, Fetched)), None)


def fetched_rows(context: SparkContext, items: Sequence[Any]) -> RDD[Any]:
    """Return an RDD with one Spark task per item. The files of the item's Fetched exist while the item is used.

    Raises PipelineError.
    """
    brought = []
    for item in items:
        task = fetched_in(item)
        assert task is not None, "a task without files needs no fetching"
        found = _SPECIAL.search(_SCHEME.sub("", task.root))
        if found is not None:
            raise PipelineError(
                f"{task.root} can't be read by executors: its path contains {found[0]!r}"
            )
        # One partition for all files of a task, without a shuffle.
        brought.append(context.binaryFiles(",".join(task.uris), 1).coalesce(1))
    return context.union(brought).mapPartitionsWithIndex(partial(_at_hand, tuple(items)))


# -- on executors


def _at_hand(
    items: tuple[Any, ...], number: int, contents: Iterable[tuple[str, bytes]]
) -> Iterator[Any]:
    item = items[number]
    task = fetched_in(item)
    assert task is not None
    with TemporaryDirectory(prefix="quorum-pipeline-", dir=local_directory()) as scratch:
        missing = _written(task, Path(scratch), contents)
        if missing:
            raise PipelineError(f"{task.root}/{min(missing)} was not read")
        yield tuple(each.at(Path(scratch)) if isinstance(each, Fetched) else each for each in item)


def _written(task: Fetched, scratch: Path, contents: Iterable[tuple[str, bytes]]) -> set[str]:
    """Write the contents to a directory; return the files that were not among them."""
    missing = set(task.files)
    for uri, content in contents:
        file = next(each for each in task.files if uri.endswith(f"/{each}"))
        target = scratch / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        missing.discard(file)
    return missing


def local_directory() -> str | None:
    """Return Spark's directory for temporary files, if one is set and writable."""
    named = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return named if named and os.access(named, os.W_OK) else None
