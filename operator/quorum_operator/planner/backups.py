"""The backup state of a quorum for its status and condition. Pure.

The Jobs that Kubernetes keeps show the results of the last runs; the status stores what has to outlive them.
"""

from dataclasses import dataclass

from quorum_node.json_text import read_json
from quorum_operator.backup_crd import BackupStatus
from quorum_operator.planner.times import seconds_of, text_of

_MOST_WORDS = 500
_MOST_NUMBER = 2**63 - 1
"""The API server rejects a status with a larger number."""
_SKEW_S = 300.0
"""Tolerated lead of the clock that dates the ends of Jobs."""


@dataclass(frozen=True, slots=True)
class BackupRun:
    """A finished Job. `output`: the JSON output of its last pod."""

    name: str
    ended_at: float
    good: bool
    output: str = ""

    @property
    def wrote_a_backup(self) -> bool:
        """Also if older backups could not be deleted afterwards, which is a failure."""
        return self.good or _text(_document(self.output), "name") is not None


@dataclass(frozen=True, slots=True)
class BackupsSeen:
    """The backups of a quorum with spec.backup. `refused`: why the CronJob can't be applied or its Jobs can't be
    read. `suspended`: somebody has suspended the CronJob, which the operator leaves so.
    """

    overdue_after_s: float
    status: BackupStatus
    refused: str = ""
    suspended: bool = False


def carried_on(
    runs: tuple[BackupRun, ...], earlier: BackupStatus | None, now: float
) -> BackupStatus:
    """The status updated by these runs."""
    found = _without_future(earlier or BackupStatus(), now)
    if found.since is None:
        found = found.model_copy(update={"since": text_of(now)})
    written = [each for each in runs if each.wrote_a_backup]
    newest = max(written, key=lambda each: each.ended_at, default=None)
    if newest is not None and newest.ended_at > _seconds(found.last_success_at):
        output = _document(newest.output)
        found = found.model_copy(
            update={
                "last_success_at": text_of(newest.ended_at),
                "name": _text(output, "name"),
                "end_offset": _number(output, "endOffset"),
                "size_bytes": _number(output, "bytes"),
            }
        )
    since = _seconds(found.last_success_at)
    failed = [
        each
        for each in runs
        if not each.good
        and (each.ended_at > since or (each.wrote_a_backup and each.ended_at == since))
    ]
    last = max(failed, key=lambda each: each.ended_at, default=None)
    if last is not None and last.ended_at > _seconds(found.last_failure_at):
        why = (
            _text(_document(last.output), "error")
            or f"Job {last.name} has no details: see its pods"
        )
        found = found.model_copy(
            update={"last_failure_at": text_of(last.ended_at), "last_failure": why[:_MOST_WORDS]}
        )
    return found.model_copy(update={"failures": len(failed)})


def _without_future(earlier: BackupStatus, now: float) -> BackupStatus:
    """Remove times in the future, which another client wrote. No backup would count until they have passed."""
    times = {
        name: getattr(earlier, name) for name in ("last_success_at", "last_failure_at", "since")
    }
    future = [name for name, text in times.items() if _seconds(text) > now + _SKEW_S]
    return earlier.model_copy(update=dict.fromkeys(future))


def reported_until(earlier: BackupStatus | None) -> float:
    """The end of the newest run in the status, in seconds since 1970; 0 if there is none."""
    found = earlier or BackupStatus()
    return max(_seconds(found.last_failure_at), _seconds(found.last_success_at))


def is_overdue(seen: BackupsSeen, now: float) -> bool:
    """Whether the last successful backup is too old."""
    status = seen.status
    begun = status.last_success_at or status.since
    return begun is not None and now - seconds_of(begun) > seen.overdue_after_s


def _seconds(text: str | None) -> float:
    return 0.0 if text is None else seconds_of(text)


def _document(text: str) -> dict[str, object]:
    try:
        found = read_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(document: dict[str, object], name: str) -> str | None:
    found = document.get(name)
    return found if isinstance(found, str) else None


def _number(document: dict[str, object], name: str) -> int | None:
    found = document.get(name)
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if 0 <= found <= _MOST_NUMBER else None
