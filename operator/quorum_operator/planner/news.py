"""Which changes of the status people are told by an event, beside the steps that are taken.

Pure: of the status before and the one now, so that an operator that was restarted tells nothing twice.
"""

from dataclasses import dataclass

from quorum_operator.backup_crd import BackupStatus
from quorum_operator.planner.conditions import CONFIRMED, OLDER_QUORUM, QUORUM_LOST, TLS_BLOCKED
from quorum_operator.planner.member_problems import CANNOT_START, NO_POD, RECORDS_LOST
from quorum_operator.status_crd import MetadataQuorumStatus


@dataclass(frozen=True, slots=True)
class News:
    """An event: `kind` is Normal or Warning, `reason` one word in CamelCase."""

    kind: str
    reason: str
    message: str


def news(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[News]:
    """Everything that has become so since the earlier status."""
    return [
        *_loss(status, earlier),
        *_lost_records(status, earlier),
        *_obstacles(status, earlier),
        *_older(status, earlier),
        *_backups(status, earlier),
        *_blocked(status, earlier),
    ]


def _loss(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[News]:
    now, before = status.quorum_loss, earlier.quorum_loss
    if now is not None and before is None:
        return [News("Warning", QUORUM_LOST, now.message)]
    if now is None and before is not None:
        return [News("Normal", "QuorumRegained", "the quorum is not lost any more")]
    return []


def _lost_records(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[News]:
    """A replica that came back with less than it had acknowledged, each time that it does."""
    known = {(member.id, member.uuid, member.condition) for member in earlier.members}
    return [
        News("Warning", RECORDS_LOST, f"member {member.id} ({member.uuid}): {member.condition}")
        for member in status.members
        if (member.condition or "").startswith(f"{RECORDS_LOST}: ")
        and (member.id, member.uuid, member.condition) not in known
    ]


_TOLD = {
    CANNOT_START: (f"Member{CANNOT_START}", "; its disk is not blamed for it"),
    NO_POD: ("PodRefused", ""),
}
"""First word of a member's condition that has a reason → reason of the event, and what is to be added."""


def _obstacles(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[News]:
    """A container that can't be made or started, a pod that is refused; once for each reason."""

    def shown(of: MetadataQuorumStatus) -> dict[tuple[int, int | None, str, str], str]:
        found = {}
        for each in of.members:
            text = each.condition or ""
            word, reason, *_ = [*text.split(": ", 2), "", ""]
            if word in _TOLD and reason:
                found[each.id, each.incarnation, word, reason] = text
        return found

    before = shown(earlier)
    return [
        News("Warning", _TOLD[place[2]][0], f"member {place[0]}: {text}{_TOLD[place[2]][1]}")
        for place, text in shown(status).items()
        if place not in before
    ]


def _older(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[News]:
    """Voters from before a recovery lead themselves."""
    now, before = _confirmed(status), _confirmed(earlier)
    if OLDER_QUORUM in now and OLDER_QUORUM not in before:
        return [News("Warning", "OlderQuorum", now)]
    return []


def _confirmed(status: MetadataQuorumStatus) -> str:
    return next((each.message for each in status.conditions if each.type == CONFIRMED), "")


def _backups(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[News]:
    """A backup was written, or could not be."""
    now, before = status.backup, earlier.backup or BackupStatus()
    if now is None:
        return []
    found = []
    if now.last_success_at is not None and now.last_success_at != before.last_success_at:
        text = f"backup {now.name}: up to offset {now.end_offset}, {now.size_bytes} bytes"
        found.append(News("Normal", "BackupWritten", text))
    if now.last_failure_at is not None and now.last_failure_at != before.last_failure_at:
        found.append(News("Warning", "BackupFailed", now.last_failure or ""))
    return found


def _blocked(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> list[News]:
    """Something that spec.tls names can't be used, or can again; once for each message."""

    def told(of: MetadataQuorumStatus) -> tuple[str, str]:
        holds = (each for each in of.conditions if each.type == TLS_BLOCKED)
        return next(((e.reason, e.message) for e in holds if e.status == "True"), ("", ""))

    now, before = told(status), told(earlier)
    if now == before:
        return []
    if not now[0]:
        return [News("Normal", "TlsUnblocked", "what spec.tls names can be used again")]
    return [News("Warning", f"Tls{now[0]}", now[1])]
