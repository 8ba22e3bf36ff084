"""Ends a command that follows a source, when a signal arrives."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event


@contextmanager
def stop_signal(number: signal.Signals, stopped: Event) -> Iterator[None]:
    """Set the event when the signal arrives, instead of raising an exception, which could interrupt a call to Java."""
    before = signal.signal(number, lambda *_: stopped.set())
    try:
        yield
    finally:
        signal.signal(number, before)
