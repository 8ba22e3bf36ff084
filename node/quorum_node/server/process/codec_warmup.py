"""Compiles codecs before they are needed, in turns in which the loop is idle.

A codec is compiled at its first use, which takes 0.1 to 1 ms. A new leader uses most of its codecs for the first time (EndQuorumEpoch,
Vote, BeginQuorumEpoch, the records of the first write) in its first milliseconds, while clients wait. Owns the order of the codecs, and
the pace. Must not know how a codec is compiled (`schema/`).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import (
    API_VERSIONS,
    APIS,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    VOTE,
)
from quorum_node.records.metadata import RECORDS_BY_TYPE, ConfigRecord
from quorum_node.records.metadata.frame import compile_metadata_decoder, compile_metadata_encoder
from quorum_node.schema.codec import compile_decoder, compile_encoder

FIRST_DELAY_SECONDS = 0.5
"""After the start: the log is open then, and a first election is over."""
_PAUSE_SECONDS = 0.01
_BUSY_SECONDS = 0.002
"""A timer that fires later than this was delayed by other work: the loop is busy."""
_LATEST_SECONDS = 0.1
"""The longest wait for an idle loop; compiling one codec takes less time than many requests."""
_HANDOVER = (
    END_QUORUM_EPOCH,
    VOTE,
    BEGIN_QUORUM_EPOCH,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    API_VERSIONS,
)

_ToCompile = tuple[Callable[[Any, int], None], type, int]


def codecs_in_order() -> list[_ToCompile]:
    """What compiles each codec, with its arguments: message and version. Those of a handover are first."""
    return [
        *_of_apis(_HANDOVER),
        *_of_records((ConfigRecord,)),
        *_of_apis(api for api in APIS.values() if api not in _HANDOVER),
        *_of_records(cls for cls in RECORDS_BY_TYPE.values() if cls is not ConfigRecord),
    ]


class CodecWarmup:
    """The newest version of every API and all metadata records, both ways; those of a handover first. Runs once in a process."""

    def __init__(self) -> None:
        self._to_come = codecs_in_order()
        self._to_come.reverse()
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._waiting_since = 0.0

    @property
    def is_done(self) -> bool:
        """Whether all codecs are compiled."""
        return not self._to_come

    def start(self, delay_seconds: float = FIRST_DELAY_SECONDS) -> None:
        """Start after a delay, on the running loop."""
        self._waiting_since = time.monotonic() + delay_seconds
        self._again(delay_seconds)

    def stop(self) -> None:
        """Stop: the process ends."""
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


def _of_apis(apis: Iterable[Api]) -> Iterator[_ToCompile]:
    for api in apis:
        for message in (api.request, api.response):
            yield compile_encoder, message, api.max_version
            yield compile_decoder, message, api.max_version


def _of_records(classes: Iterable[type[Any]]) -> Iterator[_ToCompile]:
    for cls in classes:
        for version in range(cls.HIGHEST_VERSION + 1):
            yield compile_metadata_encoder, cls, version
            yield compile_metadata_decoder, cls, version
