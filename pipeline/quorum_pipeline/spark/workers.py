"""Starts Python workers of the executors before they are needed."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


def start_workers(context: SparkContext) -> None:
    """Each does a task that does nothing, beside whatever this process does. If they can't, the first one that is needed will say so."""
    Thread(target=_start, args=(context,), daemon=True).start()


def _start(context: SparkContext) -> None:
    count = context.defaultParallelism
    with suppress(Exception):
        context.parallelize(range(count), count).foreach(_nothing)


def _nothing(number: int) -> None:
    """On an executor."""
