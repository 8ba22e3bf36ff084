"""Starts Python workers of the executors before they are needed."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


def start_workers(context: SparkContext) -> None:
    """Start workers with empty tasks, in a background thread. Errors are ignored: the first real task reports them."""
    Thread(target=_start, args=(context,), daemon=True).start()


def _start(context: SparkContext) -> None:
    count = context.defaultParallelism
    with suppress(Exception):
        context.parallelize(range(count), count).foreach(_nothing)


def _nothing(number: int) -> None:
    """Do nothing, on an executor."""
