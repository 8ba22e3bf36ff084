"""Processes that SIGINT reaches, also when the tests run in the background of a shell."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """For what is started meanwhile: a shell lets what it starts in the background ignore SIGINT, and this is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
