"""The admin token in its file, which may be written anew while the node runs (Kubernetes renews a mounted Secret).

Owns when the file is looked at. A file that can't be read, or is empty, changes nothing: the last token stays.
"""

import time
from collections.abc import Callable
from pathlib import Path

import structlog

LOOK_EVERY_S = 1.0

_LOG = structlog.get_logger("quorum_node")


class TokenFile:
    """`token`: what it held when the node started."""

    def __init__(self, path: Path, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._token, self._clock = path, token, clock
        self._state: tuple[int, int, int] | None = None
        self._looked_at = -LOOK_EVERY_S
        self._failed = False

    def current(self) -> str:
        """The token now. Looks at the file once a second at most, and reads it when it is another one."""
        now = self._clock()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._look()
        return self._token

    def _look(self) -> None:
        try:
            found = self._path.stat()
            state = found.st_mtime_ns, found.st_ino, found.st_size
            if state == self._state:
                return
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            self._complain(f"can't be read: {error}")
            return
        if not token:
            self._complain("is empty")
            return
        self._state, self._failed = state, False
        if token != self._token:
            _LOG.info(f"the admin token was renewed from {self._path}")
        self._token = token

    def _complain(self, what: str) -> None:
        if not self._failed:
            _LOG.warning(
                f"admin.token.file={self._path}: {what}; the token read before stays valid"
            )
        self._failed = True
