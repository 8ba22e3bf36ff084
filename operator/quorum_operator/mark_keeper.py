"""Keeps the marks on claims up to date, beside the one step of each reconcile.

What has to stand on a claim before a step is finished is written by the step itself (`execute.py`); here is what else is
missing: on claims of an operator that wrote none, on claims that have just been made, and what somebody has taken off.
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
"""The same marks are written on a claim again when they are still missing after so long, and not in every reconcile."""

_log = structlog.get_logger("quorum_operator")


class MarkKeeper:
    """Remembers what it has written lately; nothing rests on that but the number of calls."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._written: dict[str, tuple[ClaimNote, float]] = {}
        """Claim UID → marks, and when they were written."""

    def due(self, seen: Observation) -> list[ClaimNote]:
        """What is missing, and was not written just now."""
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
        """All that are due. A refusal is logged: the step that needs the mark meets it as well, and reports it."""
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
