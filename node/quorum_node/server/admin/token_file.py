"""The admin tokens in their file, which may be written anew while the node runs (Kubernetes renews a mounted Secret).

Every line of it is a token: one is added, then the other one removed, and nobody is refused meanwhile. Owns when the file is
looked at. A file that can't be read, or is empty, changes nothing: the last token stays.
"""

import time
from collections.abc import Callable
from pathlib import Path

import structlog

LOOK_EVERY_S = 1.0

_LOG = structlog.get_logger("quorum_node")


def tokens_in(text: str) -> tuple[str, ...]:
    """One a line; lines without any count for nothing."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


class TokenFile:
    """`token`: what it held when the node started, all lines."""

    def __init__(self, path: Path, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._tokens, self._clock = path, tokens_in(token), clock
        self._state: tuple[int, int, int] | None = None
        self._looked_at = -LOOK_EVERY_S
        self._failed = False

    def current(self) -> tuple[str, ...]:
        """The tokens now, at least one. Looks at the file once a second at most, and reads it when it is another one."""
        now = self._clock()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._look()
        return self._tokens

    def _look(self) -> None:
        try:
            found = self._path.stat()
            state = found.st_mtime_ns, found.st_ino, found.st_size
            if state == self._state:
                return
            tokens = tokens_in(self._path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            self._complain(f"can't be read: {error}")
            return
        if not tokens:
            self._complain("is empty")
            return
        self._state, self._failed = state, False
        if tokens != self._tokens:
            count = f"; {len(tokens)} are valid" if len(tokens) > 1 else ""
            _LOG.info(f"the admin token was renewed from {self._path}{count}")
        self._tokens = tokens

    def _complain(self, what: str) -> None:
        if not self._failed:
            _LOG.warning(
                f"admin.token.file={self._path}: {what}; the token read before stays valid"
            )
        self._failed = True
