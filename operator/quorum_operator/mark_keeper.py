"""Keeps the marks on claims up to date, in addition to the one step of each reconcile.

Marks that a step requires are written by that step (`execute.py`). This module writes other missing ones: on claims
of older operators, on new claims, and removed ones.
"""

import asyncio
import time

import structlog

from quorum_operator.desired.names import Owner
from quorum_operator.kube.claim_writer import ClaimWriter
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError
from quorum_operator.planner.claim_marks import ClaimNote, due_notes
from quorum_operator.planner.observed import Observation
from quorum_operator.planner.situation import Situation

REPEAT_S = 30.0
"""Time after which missing marks are written again."""

_log = structlog.get_logger("quorum_operator")


class MarkKeeper:
    """Writes missing marks. It remembers recent writes only to save calls."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._written: dict[str, tuple[ClaimNote, float]] = {}
        """Marks and write time by claim UID."""

    def due(self, seen: Observation) -> list[ClaimNote]:
        """Missing marks that were not written recently."""
        if seen.deleting:
            return []
        now = time.monotonic()
        self._written = {
            uid: each for uid, each in self._written.items() if now - each[1] <= REPEAT_S
        }
        return [
            note
            for note in due_notes(Situation(seen))
            if self._written.get(note.uid, (None,))[0] != note
        ]

    async def write(self, owner: Owner, seen: Observation) -> None:
        """Write all due marks. A rejection is logged; the step that needs the mark reports it."""
        now, writer = time.monotonic(), ClaimWriter(self._api, owner)
        due = self.due(seen)
        results = await asyncio.gather(
            *(writer.write(note) for note in due), return_exceptions=True
        )
        for note, result in zip(due, results, strict=True):
            self._written[note.uid] = (note, now)
            if isinstance(result, ApiError):
                _log.warning("claim not marked", claim=note.claim, error=str(result))
            elif isinstance(result, BaseException):
                raise result
