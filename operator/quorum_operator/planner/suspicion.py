"""When an indirect sign counts as a failed disk: it persists, the replica does not fetch, and a replacement is
allowed.

Owns the debounce. It starts when the operator first observes the sign, and is stored in the status (`suspected` of a
member), so that a restarted operator continues it. All times come from `Observation.now`; times reported by the
kubelet or API server come from other clocks.
"""

from dataclasses import replace

from quorum_operator.planner import evidence
from quorum_operator.planner.formation import founder_incarnation
from quorum_operator.planner.object_facts import Suspicion
from quorum_operator.planner.observed import Incarnation
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import Step, Wait

LOOK_AGAIN_S = 5.0


def sign_of(at: Situation, each: Incarnation) -> evidence.Sign | None:
    """The current indirect sign on a replica that does not fetch from a confirmed leader."""
    is_stopped = each.stopped is not None and each.replicas == 0
    if each.failed is not None or is_stopped or each.key in at.in_contact:
        return None
    return evidence.circumstance(each, at.now)


def suspicion_of(at: Situation, each: Incarnation) -> Suspicion | None:
    """The current sign, and since when it has been observed without interruption."""
    sign = sign_of(at, each)
    if sign is None:
        return None
    known = each.suspected
    if known is not None and (known.reason, known.subject) == (sign.reason, sign.subject):
        return known
    # Without a leader it is unknown whether the replica fetches: only an earlier suspicion
    # continues.
    if at.view is None and not _may_form_again(at, each):
        return None
    return Suspicion(sign.reason, sign.subject, at.now)


def lasting(at: Situation, each: Incarnation) -> evidence.Sign | None:
    """An indirect sign that counts as a failed disk now."""
    if _not_now(at) is not None or (at.view is None and not _may_form_again(at, each)):
        return None
    sign, suspicion = sign_of(at, each), suspicion_of(at, each)
    if sign is None or suspicion is None or suspicion != each.suspected:
        return None
    if at.now - suspicion.since < at.seen.wanted.debounce_s:
        return None
    return replace(sign, since=suspicion.since)


def _not_now(at: Situation) -> str | None:
    wanted = at.seen.wanted
    if wanted.paused:
        return "spec.paused is set"
    if not wanted.repair_enabled:
        return "spec.repair.enabled is false"
    limit = wanted.max_replacements_per_hour
    if at.recent_failures() >= limit:
        return f"spec.repair.maxReplacementsPerHour: {limit} members failed or were replaced within the last hour"
    return None


def _may_form_again(at: Situation, each: Incarnation) -> bool:
    """Whether it is the founder before the formation: a new formation has stricter conditions (`formation.py`)."""
    unformed = at.identity is not None and not at.identity.formed and at.view is None
    return unformed and founder_incarnation(at) == each


def plan_suspicion(at: Situation) -> Step | None:
    """Wait for the end of a debounce; also explains why a sign does not count."""
    for each in at.current:
        sign, suspicion = sign_of(at, each), suspicion_of(at, each)
        if sign is None or suspicion is None:
            continue
        left_s = suspicion.since + at.seen.wanted.debounce_s - at.now
        blocked = _not_now(at) or "spec.repair.debounceSeconds: it counts once it has persisted"
        reason = f"{each.name}: {sign.reason} ({sign.evidence})"
        return Wait(reason, blocked, min(max(left_s, 0.5), LOOK_AGAIN_S))
    return None
