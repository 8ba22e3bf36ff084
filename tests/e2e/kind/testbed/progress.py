"""Says what is being done, what is awaited, and how long it took. Written to stderr."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

_REMIND_EVERY_S = 20.0

_begun = time.monotonic()
_lock = threading.Lock()


def say(text: str) -> None:
    with _lock:
        print(f"[{time.monotonic() - _begun:6.1f} s] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(what: str, awaiting: str = "") -> Iterator[None]:
    """Announces one piece of work, repeats what is awaited while it lasts, then its duration."""
    begun = time.monotonic()
    over = threading.Event()
    hint = f" ({awaiting})" if awaiting else ""
    say(f"{what} ...{hint}")

    def remind() -> None:
        while not over.wait(_REMIND_EVERY_S):
            say(f"{what}: {time.monotonic() - begun:.0f} s so far{hint}")

    reminder = threading.Thread(target=remind, daemon=True)
    reminder.start()
    try:
        yield
    except BaseException:
        say(f"{what}: failed after {time.monotonic() - begun:.1f} s")
        raise
    finally:
        over.set()
        reminder.join()
    say(f"{what}: done in {time.monotonic() - begun:.1f} s")
