"""Events of the controllers of StatefulSets and Jobs about a pod or claim that they can't create. Pure functions."""

import re
from typing import Any

from quorum_operator.kube.mounts import occurred_at
from quorum_operator.kube.refusal_words import advice_on, reason_in
from quorum_operator.planner.object_facts import NotMade

Object = dict[str, Any]

_FAILED, _MADE = "FailedCreate", "SuccessfulCreate"
_BEFORE_CAUSE = re.compile("^(Error creating: |.*failed error: )", re.DOTALL)
"""Text before the API server's answer in the message: of the controller of Jobs, and of StatefulSets."""
_MESSAGE_MOST = 500


def needs_events(owned: Object, pod: Object | None) -> bool:
    """Whether only the StatefulSet's events can explain why it has no pod."""
    meta, spec = owned["metadata"], owned["spec"]
    return pod is None and "deletionTimestamp" not in meta and spec.get("replicas", 1) > 0


def not_made(events: list[Object]) -> NotMade | None:
    """The last refusal by the API server, if the owner has created nothing since then; else None."""
    failures = [each for each in events if each.get("reason") == _FAILED]
    latest = max(failures, key=occurred_at, default=None)
    if latest is None:
        return None
    made = [each for each in events if each.get("reason") == _MADE]
    if any(occurred_at(each) > occurred_at(latest) for each in made):
        return None
    message = str(latest.get("message") or "")
    answer = _BEFORE_CAUSE.sub("", message)[:_MESSAGE_MOST].rstrip(". ")
    # The controller has all rights, so any refusal comes from admission.
    reason = reason_in(answer) or ("Invalid" if " is invalid: " in answer else "AdmissionDenied")
    return NotMade(reason, f"{answer}. {advice_on(reason)}")
