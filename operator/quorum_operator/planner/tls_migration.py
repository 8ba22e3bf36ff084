"""Migrates a running quorum from clear text to TLS and back, in stages. Pure.

Owns when the next stage is recorded. Only the recorded stage is stored: templates depend on it, and `restart.py`
restarts the members one by one. Members are never more than one stage apart:

* `Dialling` is recorded when no process is `Plain`, because those can't accept TLS;
* `Closed` when all of them are `Dialling` and no client uses clear text;
* on the way back, `Plain` when no process is `Dialling`.

Going back is possible from every stage but the last, also during a change of stage.
"""

from quorum_operator.planner.observed import Incarnation
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RecordTlsStage, Step, Wait
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.tls_crd import TlsMode

RETRY_S = 2.0
_NAMED = 6
_BACK = "To go back set spec.tls.mode to Disabled"


def plan_way_back(at: Situation) -> Step | None:
    """The step back to clear text. It does not wait for the current stage, because a problem of that stage may be the
    user's reason for going back.
    """
    stage = at.tls_stage
    if at.seen.wanted.tls_mode is not TlsMode.DISABLED or not stage.takes_both:
        return None
    if stage is TlsStage.DIALLING:
        return _record(at, TlsStage.ACCEPTING, "spec.tls.mode is Disabled")
    if _at_stage(at, TlsStage.DIALLING):
        return None  # the members could not connect to one that accepts clear text only
    return _record(at, TlsStage.PLAIN, "spec.tls.mode is Disabled")


def plan_next_stage(at: Situation) -> Step | None:
    """The next stage, once all members have reached the recorded one."""
    stage = at.tls_stage
    if not is_migrating(at) or at.seen.wanted.tls_mode in (None, TlsMode.DISABLED):
        return None
    awaited = awaits(at)
    if awaited is not None:
        final = stage is TlsStage.DIALLING and at.seen.wanted.tls_mode is TlsMode.MIGRATING
        return None if final else Wait(f"TLS: stage {stage.value}", awaited, RETRY_S)
    if stage is TlsStage.PLAIN:
        return _record(at, TlsStage.ACCEPTING, "each member has a certificate")
    if stage is TlsStage.ACCEPTING:
        return _record(at, TlsStage.DIALLING, "each member accepts TLS")
    return _record(at, TlsStage.CLOSED, "members connect by TLS, and no client uses clear text")


def is_migrating(at: Situation) -> bool:
    """Whether a migration is in progress or about to start."""
    stage, mode = at.tls_stage, at.seen.wanted.tls_mode
    if at.identity is None or not at.identity.formed or stage is TlsStage.CLOSED:
        return False
    return stage is not TlsStage.PLAIN or mode in (TlsMode.MIGRATING, TlsMode.MANAGED)


def awaits(at: Situation) -> str | None:
    """What the next stage waits for; None if nothing."""
    stage, found = at.tls_stage, at.seen.certificates
    if stage is TlsStage.PLAIN:
        if found is None or not found.usable:
            why = "" if found is None else "; ".join(filter(None, [found.refused, found.waits]))
            return "certificates are being issued" + (f": {why}" if why else "")
        return None
    behind = _not_at_stage(at, stage)
    if behind:
        return f"{', '.join(behind)} have not restarted for this stage yet"
    unused = _without_certificate(at)
    if unused:
        return f"{', '.join(unused)} do not use a certificate yet"
    if stage is TlsStage.ACCEPTING:
        return None
    if at.seen.wanted.tls_mode is not TlsMode.MANAGED:
        return "set spec.tls.mode: Managed, which disables clear text for good"
    plain = {each for one in _running(at) for each in _clear_text(one)}
    if plain:
        more = " …" if len(plain) > _NAMED else ""
        return (
            f"these addresses still connect in clear text: {', '.join(sorted(plain)[:_NAMED])}{more}."
            " Give these brokers and clients certificates (spec.tls.identities) and enable TLS; the port stays the same"
        )
    return None


def migration_message(at: Situation) -> str:
    """Message with the stage, what it waits for, and how to go back."""
    stage = at.tls_stage
    if at.seen.wanted.tls_mode is TlsMode.DISABLED:
        return f"migration back to clear text, stage {stage.value}: members are restarted one at a time"
    doing = {
        TlsStage.PLAIN: "members use clear text only",
        TlsStage.ACCEPTING: "members accept TLS and clear text, and connect to each other in clear text",
        TlsStage.DIALLING: "members connect to each other by TLS, and still accept clear text",
    }[stage]
    awaited = awaits(at)
    next_ = f"awaited: {awaited}" if awaited else "the next stage is about to start"
    if at.seen.wanted.tls_mode is None:
        next_ = "spec.tls.mode is not set, so the migration stops here. Set Managed to continue"
    return f"migration to TLS, stage {stage.value}: {doing}; {next_}. {_BACK}"


def _record(at: Situation, stage: TlsStage, reason: str) -> RecordTlsStage:
    identity = at.identity
    assert identity is not None
    return RecordTlsStage(identity.index, stage, identity.resource_version, reason)


def _running(at: Situation) -> list[Incarnation]:
    """Members that run, should run, or whose pod is still terminating."""
    return [each for each in at.seen.incarnations if each.replicas > 0 or each.pod is not None]


def _at_stage(at: Situation, stage: TlsStage) -> list[str]:
    return [each.name for each in _running(at) if stage in _stages(each)]


def _not_at_stage(at: Situation, stage: TlsStage) -> list[str]:
    return [each.name for each in _running(at) if _stages(each) != {stage}]


def _stages(each: Incarnation) -> set[TlsStage]:
    """Stages of its process and of the next one."""
    found = {each.tls_stage} if each.replicas > 0 else set()
    return found | {each.pod.tls_stage} if each.pod is not None else found


def _without_certificate(at: Situation) -> list[str]:
    return [
        each.name
        for each in _running(at)
        if each.report is None or each.report.certificates is None
    ]


def _clear_text(each: Incarnation) -> frozenset[str]:
    report = each.report
    certificates = report.certificates if report is not None else None
    return certificates.clear_text if certificates is not None else frozenset()
