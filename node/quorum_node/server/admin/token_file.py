"""The admin tokens in their file, which may be rewritten while the node runs (Kubernetes renews a mounted Secret).

Every line of the file is a token. To rotate without refused requests, add the new token, then remove the old one. Owns when the file
is checked. If the file can't be read, or is empty, the tokens that were read before stay valid.
"""

import time
from collections.abc import Callable
from pathlib import Path

import structlog

CHECK_PERIOD_S = 1.0
"""Interval of the checks of the file, in seconds."""

_LOG = structlog.get_logger("quorum_node")


def tokens_in(text: str) -> tuple[str, ...]:
    """One token a line; blank lines are ignored."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


class TokenFile:
    """`token`: the content of the file when the node started, all lines."""

    def __init__(self, path: Path, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._tokens, self._clock = path, tokens_in(token), clock
        self._state: tuple[int, int, int] | None = None
        self._checked_at = -CHECK_PERIOD_S
        self._failed = False

    def current(self) -> tuple[str, ...]:
        """The tokens that are valid now, at least one. Checks the file at most once a second, and reads it when it has changed."""
        now = self._clock()
        if now - self._checked_at >= CHECK_PERIOD_S:
            self._checked_at = now
            self._check()
        return self._tokens

    def _check(self) -> None:
        try:
            found = self._path.stat()
            state = found.st_mtime_ns, found.st_ino, found.st_size
            if state == self._state:
                return
            # Some editors of Windows write a byte order mark first.
            tokens = tokens_in(self._path.read_text("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            self._report_unusable(f"can't be read: {error}")
            return
        if not tokens:
            self._report_unusable("is empty")
            return
        self._state, self._failed = state, False
        if tokens != self._tokens:
            count = f"; {len(tokens)} are valid" if len(tokens) > 1 else ""
            _LOG.info(f"the admin token was renewed from {self._path}{count}")
        self._tokens = tokens

    def _report_unusable(self, what: str) -> None:
        if not self._failed:
            _LOG.warning(
                f"admin.token.file={self._path}: {what}. The token read before stays valid until the file has one: correct it"
            )
        self._failed = True
