"""Codecs compiled before they are needed, in turns in which the loop has nothing else to do.

A codec is compiled at its first use, which takes 0.1 to 1 ms. Most first uses of a leadership (EndQuorumEpoch, Vote,
BeginQuorumEpoch, the first write) come in its first milliseconds, while clients wait. Owns which codecs come first, and
the pace. Must not know how a codec is compiled (`schema/`).
"""

import asyncio
import time

from quorum_node.protocol.apis import (
    API_VERSIONS,
    APIS,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    VOTE,
)
from quorum_node.schema.codec import compile_decoder, compile_encoder

FIRST_DELAY_SECONDS = 0.5
"""After the start: the log is open and the first election is over, if there was one to be had."""
_PAUSE_SECONDS = 0.01
_BUSY_SECONDS = 0.002
"""A timer that comes later than this had others before it: the loop has something to do."""
_LATEST_SECONDS = 0.1
"""A busy loop is not waited for longer than this; one codec is less than what many a request takes."""
_HANDOVER = (
    END_QUORUM_EPOCH,
    VOTE,
    BEGIN_QUORUM_EPOCH,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    API_VERSIONS,
)


class CodecsAhead:
    """Every API's newest version, both ways; those of a handover first. Done once in the life of a process."""

    def __init__(self) -> None:
        others = (api for api in APIS.values() if api not in _HANDOVER)
        self._to_come = [
            (compile_one, message, api.max_version)
            for api in (*_HANDOVER, *others)
            for message in (api.request, api.response)
            for compile_one in (compile_encoder, compile_decoder)
        ]
        self._to_come.reverse()
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._waiting_since = 0.0

    @property
    def is_done(self) -> bool:
        """Nothing is left to compile."""
        return not self._to_come

    def start(self, delay_seconds: float = FIRST_DELAY_SECONDS) -> None:
        """Begins after a delay, on the running loop."""
        self._waiting_since = time.monotonic() + delay_seconds
        self._again(delay_seconds)

    def stop(self) -> None:
        """The process ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _again(self, delay_seconds: float) -> None:
        self._due = time.monotonic() + delay_seconds
        self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._step)

    def _step(self) -> None:
        now = time.monotonic()
        busy = now - self._due > _BUSY_SECONDS
        if not busy or now - self._waiting_since > _LATEST_SECONDS:
            compile_one, message, version = self._to_come.pop()
            compile_one(message, version)
            self._waiting_since = time.monotonic()
        if self._to_come:
            self._again(_PAUSE_SECONDS)
