"""Status changes that are reported by an event, in addition to steps.

Pure: compares the previous and the current status, so a restarted operator reports nothing twice.
"""

from dataclasses import dataclass

from quorum_operator.backup_crd import BackupStatus
from quorum_operator.planner.conditions import CONFIRMED, OLDER_QUORUM, QUORUM_LOST, TLS_BLOCKED
from quorum_operator.planner.member_problems import (
    CANNOT_START,
    DAMAGED_RECORDS,
    NO_POD,
    RECORDS_LOST,
)
from quorum_operator.status_crd import MetadataQuorumStatus


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """An event: `kind` is Normal or Warning, `reason` one word in CamelCase."""

    kind: str
    reason: str
    message: str


def status_events(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[StatusEvent]:
    """All changes since the earlier status."""
    return [
        *_loss(status, earlier),
        *_reported_by_replicas(status, earlier),
        *_obstacles(status, earlier),
        *_older(status, earlier),
        *_backups(status, earlier),
        *_blocked(status, earlier),
    ]


def _loss(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[StatusEvent]:
    now, before = status.quorum_loss, earlier.quorum_loss
    if now is not None and before is None:
        return [StatusEvent("Warning", QUORUM_LOST, now.message)]
    if now is None and before is not None:
        return [StatusEvent("Normal", "QuorumRegained", "the quorum has a majority again")]
    return []


def _reported_by_replicas(
    status: MetadataQuorumStatus, earlier: MetadataQuorumStatus
) -> list[StatusEvent]:
    """Each time a replica came back without records that it had acknowledged, or receives damaged records."""
    known = {(member.id, member.uuid, member.condition) for member in earlier.members}
    return [
        StatusEvent("Warning", word, f"member {member.id} ({member.uuid}): {member.condition}")
        for member in status.members
        for word in (RECORDS_LOST, DAMAGED_RECORDS)
        if (member.condition or "").startswith(f"{word}: ")
        and (member.id, member.uuid, member.condition) not in known
    ]


_EVENTS = {
    CANNOT_START: (f"Member{CANNOT_START}", "; this is not treated as a disk failure"),
    NO_POD: ("PodRefused", ""),
}
"""First word of a member's problem → reason of the event, and additional text."""


def _obstacles(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[StatusEvent]:
    """A container that can't be created or started, or a rejected pod; once per reason."""

    def shown(of: MetadataQuorumStatus) -> dict[tuple[int, int | None, str, str], str]:
        found = {}
        for each in of.members:
            text = each.condition or ""
            word, reason, *_ = [*text.split(": ", 2), "", ""]
            if word in _EVENTS and reason:
                found[each.id, each.incarnation, word, reason] = text
        return found

    before = shown(earlier)
    return [
        StatusEvent(
            "Warning", _EVENTS[place[2]][0], f"member {place[0]}: {text}{_EVENTS[place[2]][1]}"
        )
        for place, text in shown(status).items()
        if place not in before
    ]


def _older(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[StatusEvent]:
    """Voters from before a recovery have a leader of their own."""
    now, before = _confirmed(status), _confirmed(earlier)
    if OLDER_QUORUM in now and OLDER_QUORUM not in before:
        return [StatusEvent("Warning", "OlderQuorum", now)]
    return []


def _confirmed(status: MetadataQuorumStatus) -> str:
    return next((each.message for each in status.conditions if each.type == CONFIRMED), "")


def _backups(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[StatusEvent]:
    """A backup was written, or failed."""
    now, before = status.backup, earlier.backup or BackupStatus()
    if now is None:
        return []
    found = []
    if now.last_success_at is not None and now.last_success_at != before.last_success_at:
        found.append(StatusEvent("Normal", "BackupWritten", _written(now)))
    if now.last_failure_at is not None and now.last_failure_at != before.last_failure_at:
        found.append(StatusEvent("Warning", "BackupFailed", now.last_failure or ""))
    return found


def _written(backup: BackupStatus) -> str:
    """What is known of it: the output of its pod is gone if the pod was deleted early."""
    parts = [
        f"backup {backup.name}" if backup.name else "a backup, of whose output nothing is left"
    ]
    if backup.end_offset is not None:
        parts.append(f"up to offset {backup.end_offset}")
    if backup.size_bytes is not None:
        parts.append(f"{backup.size_bytes} bytes")
    return ", ".join(parts)


def _blocked(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[StatusEvent]:
    """An object in spec.tls can't be used, or can be used again; once per message."""

    def problem(of: MetadataQuorumStatus) -> tuple[str, str]:
        holds = (each for each in of.conditions if each.type == TLS_BLOCKED)
        return next(((e.reason, e.message) for e in holds if e.status == "True"), ("", ""))

    now, before = problem(status), problem(earlier)
    if now == before:
        return []
    if not now[0]:
        return [
            StatusEvent(
                "Normal", "TlsUnblocked", "all objects that spec.tls names can be used again"
            )
        ]
    return [StatusEvent("Warning", f"Tls{now[0]}", now[1])]
