"""The conditions of a MetadataQuorum: types, reasons and messages.

Each type has a page under `docs/how-to/conditions/`, each reason a row in it (`condition_reasons.py`). Each message
describes the state and, if necessary, what to do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorum_operator.planner.backups import BackupsSeen, is_overdue
from quorum_operator.planner.certificates_seen import CertificatesSeen
from quorum_operator.planner.claim_decisions import (
    adoptable,
    had_members,
    required_decision,
    undecided,
)
from quorum_operator.planner.foreign_target import explain
from quorum_operator.planner.growth import grows_to, wants_more
from quorum_operator.planner.identity_rebuilding import plan_missing_identity
from quorum_operator.planner.member_problems import LEFT
from quorum_operator.planner.object_facts import ForeignObject
from quorum_operator.planner.placement import shortage
from quorum_operator.planner.quorum_loss import nothing_left
from quorum_operator.planner.refusals import reported_refusals
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import Nothing, Step, Wait
from quorum_operator.planner.tls_migration import is_migrating, migration_message
from quorum_operator.planner.updates import rollout_state
from quorum_operator.quorum_loss_crd import QuorumLossStatus
from quorum_operator.status_crd import MemberStatus, Phase
from quorum_operator.tls_crd import TlsMode

READY = "Ready"
"""All wanted voters exist and are live, and their pods are ready."""
FORMED = "Formed"
"""All initial voters have joined once; clients may write from then on."""
CONFIRMED = "QuorumConfirmed"
"""A majority confirmed the leader in this reconcile."""
QUORUM_LOST = "QuorumLost"
"""No majority is available; the operator changes nothing."""
PROGRESSING = "Progressing"
"""The operator is changing members."""
DEGRADED = "Degraded"
"""A voter is not live, or a pod is not ready."""
UNREACHABLE = "MembersUnreachable"
"""Hosts of members are not ready or deleted, and these members are unreachable."""
DISK_FULL = "DiskFull"
"""A member's disk is full. The member is not replaced."""
EVEN_VOTERS = "EvenVoters"
"""The voter set has an even size that the spec does not ask for."""
ALTERATION_PENDING = "AlterationPending"
"""Another client set target voters through AlterQuorum; the operator changes no voter meanwhile."""
SPEC_INVALID = "SpecInvalid"
"""The spec can't be implemented as it is."""
TOKEN_REFUSED = "TokenRefused"
"""Reason of `Refused`: a node rejects the admin token."""
REFUSED = "Refused"
"""The API server or a node rejects a call of the operator; other work continues."""

FOREIGN_OBJECTS = "ForeignObjects"
"""Objects with names of this quorum have another owner; they are not changed or used."""


IDENTITY_MISSING = "IdentityMissing"
"""The identity object was deleted."""


TLS_READY = "TlsReady"
"""Each member has a usable certificate."""
TRUST_PENDING = "TrustPending"
"""The authority is being replaced, and a member does not trust the next one yet, or may still use the previous one."""
TLS_BLOCKED = "TlsBlocked"
"""An object in spec.tls can't be used; existing certificates stay in use."""


CLAIMS_IN_DOUBT = "ClaimsInDoubt"
"""Claims that may hold a voter and need a decision by the user."""


PLACEMENT_BLOCKED = "PlacementBlocked"
"""A planned move has not begun, as there is no host for another member."""


STORAGE_CHANGING = "StorageChanging"
"""The spec asks for different volumes: they are expanded, or their members move to new ones."""


UPDATED = "Updated"
"""All members run the version and configuration of the spec."""


BACKUP_CURRENT = "BackupCurrent"
"""The last successful backup is recent enough."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition without its timestamps."""

    type: str
    holds: bool
    reason: str
    message: str


def all_findings(
    at: Situation,
    phase: Phase,
    loss: QuorumLossStatus | None,
    step: Step,
    members: list[MemberStatus],
) -> list[Finding]:
    """All conditions, in a fixed order."""
    return list(_findings(at, phase, loss, step, members))


def _findings(
    at: Situation,
    phase: Phase,
    loss: QuorumLossStatus | None,
    step: Step,
    members: list[MemberStatus],
) -> Iterator[Finding]:
    ready = phase is Phase.READY or (phase is Phase.PAUSED and _complete(at))
    summary = f"{len(at.live)} of {len(at.voters)} voters are live; the spec asks for {at.target}"
    where = "" if ready else _SEE.get(phase, "")
    yield Finding(READY, ready, "AllVotersLive" if ready else phase.value, summary + where)
    yield _formed(at)
    confirmed = at.view is not None
    yield Finding(
        CONFIRMED,
        confirmed,
        "MajorityConfirmed" if confirmed else "NoConfirmedDescribe",
        (
            "a majority of the voters confirms the leader"
            if confirmed
            else "no majority confirms a leader, so nothing is stopped, removed or deleted. An election takes some seconds; "
            "if it lasts longer, see the condition QuorumLost"
        )
        + _older(at),
    )
    yield Finding(
        QUORUM_LOST,
        loss is not None,
        "HasMajority" if loss is None else "NothingLeft" if nothing_left(at) else "NoMajority",
        "the quorum is not lost" if loss is None else loss.message,
    )
    moving = not isinstance(step, Nothing)
    blocked = f" (blocked by: {step.blocked_by})" if isinstance(step, Wait) else ""
    yield Finding(
        PROGRESSING, moving, type(step).__name__ if moving else "Settled", step.reason + blocked
    )
    unhealthy = [
        f"{member.id}: {member.condition}"
        for member in members
        if member.condition and not member.condition.startswith(LEFT)
    ]
    yield Finding(
        DEGRADED,
        bool(unhealthy),
        "MembersUnhealthy" if unhealthy else "AllMembersHealthy",
        "; ".join(unhealthy) or "all members are healthy",
    )
    yield _unreachable(at)
    yield _disk_full(members)
    yield _even(at, step)
    yield _alteration(at)
    wrong = at.seen.invalid
    yield Finding(
        SPEC_INVALID,
        wrong is not None,
        "SpecValid" if wrong is None else "SpecInvalid",
        wrong or "the spec is valid",
    )
    yield _refused(at)
    yield _foreign(at)
    yield _identity(at)
    yield _claims(at)
    yield _tls_under_way(at) or tls_ready(at.seen.certificates, paused=at.seen.wanted.paused)
    yield trust_pending(at.seen.certificates)
    yield tls_blocked(at.seen.certificates)
    yield _placement(at)
    yield _storage(at)
    yield backup_current(at.seen.backups, at.now)
    yield _updated(at)


_NAMED_OBJECTS = 6
_SEE = {
    Phase.PENDING: "; see the conditions SpecInvalid and Refused",
    Phase.FORMING: "; see the condition Formed",
    Phase.SCALING: "; see the condition Progressing",
    Phase.REPAIRING: "; see the condition Progressing",
    Phase.DEGRADED: "; see the condition Degraded",
    Phase.QUORUM_LOST: "; see the condition QuorumLost",
    Phase.RECOVERING: "; see the condition Progressing",
    Phase.DISK_FULL: "; see the condition DiskFull",
    Phase.PAUSED: "; spec.paused is true: nothing is changed or repaired until it is false",
}
"""Reference to other conditions in the message of Ready, by phase."""
OLDER_QUORUM = "voters from before a recovery"
"""Name of these voters in the message of QuorumConfirmed."""


def _older(at: Situation) -> str:
    """Message about voters from before a recovery that have a leader of their own."""
    older = at.seen.older_quorum
    if older is None:
        return ""
    return (
        f"; {OLDER_QUORUM} confirm {older.leader.id} as their leader in epoch {older.epoch}, which is older than the "
        "epoch confirmed before, so their answers are ignored. Stop their processes, and keep their volumes"
    )


def _complete(at: Situation) -> bool:
    return at.view is not None and at.live == at.voters and len(at.voters) == at.target


def _formed(at: Situation) -> Finding:
    formed = at.view.formed if at.view is not None else False
    formed = formed or (at.view is None and at.identity is not None and at.identity.formed)
    if formed:
        return Finding(FORMED, True, "InitialVotersJoined", "all initial voters have joined")
    message = (
        f"{len(at.voters)} of {at.target} voters have joined; nodes reject writes until all have. If it takes longer than a "
        "minute, see the condition Degraded and kubectl describe pod"
    )
    return Finding(FORMED, False, "WaitingForVoters", message)


def _unreachable(at: Situation) -> Finding:
    away = at.reachability
    if not away.unreachable:
        return Finding(UNREACHABLE, False, "AllReachable", "no member is on an unreachable host")
    zone = any(each.host.zone_is_away for each in away.unreachable.values())
    return Finding(UNREACHABLE, True, "ZoneAway" if zone else "HostsAway", away.advice())


def _disk_full(members: list[MemberStatus]) -> Finding:
    full = [str(member.id) for member in members if member.condition == "DiskFull"]
    message = (
        f"the disk of member {', '.join(full)} is full: enlarge the volume or its storage pool, or raise "
        "spec.storage.size. The member is not replaced: it continues when there is free space"
        if full
        else "no disk is full"
    )
    return Finding(DISK_FULL, bool(full), "DiskFull" if full else "EnoughSpace", message)


def _even(at: Situation, step: Step) -> Finding:
    size = len(at.voters)
    even = size % 2 == 0 and size > 0 and size != at.target
    message = f"{size} voters"
    if even:
        waits = isinstance(step, Wait | Nothing)
        message += f" tolerate no more failures than {size - 1}: " + (
            "the next change makes the number odd; the condition Progressing says what it waits for"
            if waits
            else "the next step makes the number odd"
        )
    return Finding(EVEN_VOTERS, even, "BetweenMoves" if even else "AsWanted", message)


def _refused(at: Situation) -> Finding:
    found = sorted(reported_refusals(at.seen), key=lambda each: (each.since, each.subject))
    messages = [f"{each.step} of {each.subject}: {each.message}" for each in found]
    reasons = [each.reason for each in found]
    for each in at.current:
        if each.not_made is not None and each.replicas > 0 and each.failed is None:
            reasons.append(each.not_made.reason)
            messages.append(f"pod of StatefulSet/{each.name}: {each.not_made.message}")
    token = [each.pod.name for each in at.current if each.pod and each.pod.token_refused_since]
    if token:
        reasons.append(TOKEN_REFUSED)
        messages.append(
            f"{', '.join(token)}: the node rejects the admin token of the Secret. A node reads a changed token within "
            "two minutes; a node of an older version is restarted for it when all voters are live. If that does not "
            "happen, restore the earlier token in the Secret, or delete these pods one by one"
        )
    if not messages:
        return Finding(REFUSED, False, "NothingRefused", "nothing is refused")
    more = f"; and {len(messages) - 4} more" if len(messages) > 4 else ""
    return Finding(REFUSED, True, reasons[0], "; ".join(messages[:4]) + more)


def _foreign(at: Situation) -> Finding:
    """Asks to delete nothing that the quorum adopts, or that the user may decide to adopt."""
    ready, open_ones = adoptable(at), undecided(at)
    others = [each for each in at.seen.foreign_objects if each not in (*ready, *open_ones)]
    message = "all objects with the quorum's names are owned by it"
    if ready:
        message = f"of this quorum's cluster, adopted again: {_objects_in(ready)}"
    if not others and not open_ones:
        return Finding(FOREIGN_OBJECTS, False, "NoForeignObjects", message)
    waiting = (
        f"left by an earlier resource of this name: {_objects_in(open_ones)}. Keep them until you have decided whether "
        "spec.earlierClaims adopts them; the condition ClaimsInDoubt has the cluster id"
    )
    foreign = (
        f"not part of this quorum, so not used or changed: {_objects_in(others)}. Find their owner: they may hold data "
        "of an earlier resource of this name. Delete or rename what is not needed"
    )
    parts = [*([waiting] if open_ones else []), *([foreign] if others else [])]
    reason = "NamesTaken" if others else "EarlierResource"
    return Finding(FOREIGN_OBJECTS, True, reason, ". ".join(parts))


def _objects_in(found: Sequence[ForeignObject]) -> str:
    named = [
        f"{each.kind}/{each.name} ({each.owners or 'without an owner'})"
        for each in found[:_NAMED_OBJECTS]
    ]
    return ", ".join(named) + (" …" if len(found) > _NAMED_OBJECTS else "")


def _identity(at: Situation) -> Finding:
    if at.recorded_identity is not None or not had_members(at):
        message = "the identity ConfigMap exists, or is not needed yet"
        return Finding(IDENTITY_MISSING, False, "IdentityThere", message)
    return Finding(IDENTITY_MISSING, True, "IdentityGone", plan_missing_identity(at).reason)


def _claims(at: Situation) -> Finding:
    message = required_decision(at)
    if message is None:
        return Finding(CLAIMS_IN_DOUBT, False, "NoDoubt", "no claim waits for a decision")
    earlier = at.recorded_identity is None
    return Finding(CLAIMS_IN_DOUBT, True, "EarlierResource" if earlier else "NotCertain", message)


def _tls_under_way(at: Situation) -> Finding | None:
    """TlsReady during a migration from clear text to TLS or back."""
    if not is_migrating(at):
        return None
    back = at.seen.wanted.tls_mode is TlsMode.DISABLED
    found = at.seen.certificates
    problems = f". {'; '.join(found.problems)}" if found is not None and found.problems else ""
    return Finding(
        TLS_READY, False, "GoingBack" if back else "Migrating", migration_message(at) + problems
    )


def tls_ready(found: CertificatesSeen | None, *, paused: bool = False) -> Finding:
    """TlsReady; `found`: None for a quorum without certificates. `paused`: nothing is issued or renewed."""
    if found is None:
        message = (
            "members listen in plaintext and accept requests from every client that can reach their ports; only the "
            "network policy limits access. To enable TLS set spec.tls.mode: Managed; members restart one at a time"
        )
        return Finding(TLS_READY, False, "Disabled", message)
    if found.refused:
        message = f"{found.refused.rstrip('.')}. Existing certificates stay in use"
        return Finding(TLS_READY, False, "WriteRefused", message)
    held = "spec.paused is set, so nothing is issued or renewed" if paused and found.waits else ""
    details = "; ".join(filter(None, [held, found.waits, *found.problems]))
    if not found.usable:
        return Finding(TLS_READY, False, "Issuing", f"certificates are being issued: {details}")
    if details:
        return Finding(TLS_READY, True, "Renewing", f"each member has a certificate; {details}")
    of = "the issuer" if found.by_others else f"authority {found.authority}"
    message = f"each member has a certificate of {of}"
    return Finding(TLS_READY, True, "CertificatesIssued", message)


def trust_pending(found: CertificatesSeen | None) -> Finding:
    """TrustPending: whether the authority is being replaced, and what it waits for."""
    if found is None or not found.trust_pending:
        return Finding(TRUST_PENDING, False, "NothingPending", "no authority is being replaced")
    if found.brokers:
        message = (
            f"{found.waits}. Restart them, then confirm it by an annotation of this resource: "
            "docs/how-to/conditions/TrustPending.md has the commands"
        )
        return Finding(TRUST_PENDING, True, "WaitingForBrokers", message)
    return Finding(TRUST_PENDING, True, "WaitingForMembers", found.waits)


def tls_blocked(found: CertificatesSeen | None) -> Finding:
    """TlsBlocked: whether an object in spec.tls can't be used."""
    if found is None or not found.troubles:
        message = (
            "all objects that spec.tls names can be used"
            if found is not None
            else "no certificates"
        )
        return Finding(TLS_BLOCKED, False, "NothingBlocked", message)
    details = "; ".join(each.message for each in found.troubles)
    return Finding(TLS_BLOCKED, True, found.troubles[0].reason, details)


def backup_current(seen: BackupsSeen | None, now: float) -> Finding:
    """BackupCurrent. `seen`: None if no backups are configured."""
    if seen is None:
        message = "spec.backup is not set: the metadata exists only on the members' volumes"
        return Finding(BACKUP_CURRENT, False, "Disabled", message)
    status = seen.status
    named = f"{status.name} of" if status.name else "of"
    last = f"the last successful backup is {named} {status.last_success_at}"
    if status.last_success_at is None:
        last = "there is no successful backup yet"
    failed = f"; the last run failed at {status.last_failure_at}: {status.last_failure}"
    if seen.refused:
        return Finding(BACKUP_CURRENT, False, "Refused", f"{seen.refused}; {last}")
    if seen.suspended:
        message = f"the CronJob of backups is suspended, so no backup is started until its suspend field is false; {last}"
        return Finding(BACKUP_CURRENT, False, "Suspended", message)
    if is_overdue(seen, now):
        why = failed if status.failures else "; see the CronJob and its Jobs"
        return Finding(
            BACKUP_CURRENT,
            False,
            "Overdue",
            f"{last}, which exceeds spec.backup.overdueAfterSeconds{why}",
        )
    if status.failures:
        return Finding(BACKUP_CURRENT, False, "LastRunFailed", last + failed)
    if status.last_success_at is None:
        message = "the first backup is written at the next scheduled time"
        return Finding(BACKUP_CURRENT, False, "FirstPending", message)
    return Finding(BACKUP_CURRENT, True, "BackupRecent", last)


def _updated(at: Situation) -> Finding:
    behind = rollout_state(at)
    if behind is None:
        return Finding(
            UPDATED,
            True,
            "AllMembersUpdated",
            "all members run the version and configuration of the spec",
        )
    reason, message = behind
    return Finding(UPDATED, False, reason, message)


def _placement(at: Situation) -> Finding:
    found = shortage(at)
    if found is None:
        message = "no change waits for a host"
        return Finding(PLACEMENT_BLOCKED, False, "NothingBlocked", message)
    message = (
        f"a planned change has not started: {found.text}. Failed members are still replaced. Add a host, or let members share "
        "hosts during the change: set spec.spread to Preferred"
    )
    return Finding(PLACEMENT_BLOCKED, True, "TooFewHosts", message)


def _storage(at: Situation) -> Finding:
    """StorageChanging: reported before any change, also while spec.paused is set."""
    wanted = at.seen.wanted.storage
    others = [each for each in at.current if each.storage != wanted and each.failed is None]
    others = [
        each for each in others if at.view is None or each.key in at.voters or each.key is None
    ]
    moving = [each for each in others if at.is_on_other_storage(each)]
    if moving:
        more = all(wants_more(each, wanted) for each in moving)
        why = (
            "the storage class does not set allowVolumeExpansion: true"
            if more
            else "the spec asks for a different storage class or a smaller size"
        )
        message = (
            f"{', '.join(each.name for each in moving)}: {why}, so each is replaced by a member on a new volume of"
            f" {wanted.size}, one at a time. The claims that they leave are kept or deleted as spec.deletionPolicy "
            "says. To stop this set spec.paused: true, or revert spec.storage"
        )
        return Finding(STORAGE_CHANGING, True, "Replacing", message)
    growing = [each.name for each in others if grows_to(each, wanted)]
    if growing:
        message = (
            f"the claims of {', '.join(growing)} are expanded to {wanted.size} without a restart"
        )
        return Finding(STORAGE_CHANGING, True, "Expanding", message)
    smaller = [
        f"{each.name} {each.claim.expansion}"
        for each in at.current
        if each.claim is not None and each.claim.expansion is not None and each.failed is None
    ]
    if smaller:
        message = f"volumes are being expanded to {wanted.size}: {'; '.join(smaller)}"
        return Finding(STORAGE_CHANGING, True, "Expanding", message)
    return Finding(STORAGE_CHANGING, False, "AsWanted", "all volumes match the spec")


def _alteration(at: Situation) -> Finding:
    view = at.view
    if view is None or view.target_voters is None:
        message = "no target voters are set by AlterQuorum"
        return Finding(ALTERATION_PENDING, False, "NoTarget", message)
    return Finding(ALTERATION_PENDING, True, "TargetVotersSet", explain(at, view))
