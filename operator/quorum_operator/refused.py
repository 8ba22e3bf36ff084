"""Converts rejections by the API server or a node to a reason and a message."""

from dataclasses import replace

from quorum_node.api import ErrorCode
from quorum_operator.admin_call import Answer
from quorum_operator.attempts import Refused
from quorum_operator.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    Unavailable,
)
from quorum_operator.kube.refusal_words import advice_on, reason_in
from quorum_operator.planner.conditions import TOKEN_REFUSED

_TOO_MANY_REQUESTS = 429
_UNREPORTED_OUTAGES = 2
"""Number of times in a row that a step fails because the API server is unavailable, without a report."""


def is_outage(error: ApiError) -> bool:
    """Whether the API server as a whole is unavailable, as opposed to rejecting this call."""
    by_webhook = error.status >= 500 and "webhook" in error.message
    return not by_webhook and (error.status in {0, _TOO_MANY_REQUESTS} or error.status >= 500)


def is_frozen(error: ApiError) -> bool:
    """Whether the call changes an immutable field."""
    text = error.message.lower()
    return isinstance(error, Invalid) and ("immutable" in text or "may not change once set" in text)


CONFLICT = "Conflict"
"""Reason: another client changed the object first."""
ALREADY_EXISTS = "AlreadyExists"
"""Reason: an object of that name exists."""


def by_api(subject: str, error: ApiError) -> Refused:
    """The reason and message of a rejection by the API server."""
    if isinstance(error, Conflict | NotFound):
        # Another client changed it first: the next reconcile reads the change. Only repeated
        # conflicts are reported.
        return Refused(subject, CONFLICT, f"changed meanwhile: {error.message}", 0.1, 60.0, 5)
    reason = _reason(error)
    answer = error.message.rstrip(". ") or f"no answer ({error.reason})"
    message = f"{answer}. {advice_on(reason)}".strip()
    if isinstance(error, AlreadyExists):
        return Refused(subject, reason, message, 0.2, 60.0, 2)
    return Refused(subject, reason, message)


def passing(refused: Refused) -> Refused:
    """The same for an API server that is unavailable: reported only if it is repeated."""
    return replace(refused, passing=_UNREPORTED_OUTAGES)


def _reason(error: ApiError) -> str:
    if isinstance(error, AlreadyExists):
        return ALREADY_EXISTS
    if error.status == 401:
        return "Unauthorized"
    found = reason_in(error.message)
    if found is not None:
        return "ServerError" if found == "AdmissionDenied" and error.status >= 500 else found
    if error.status == 403:
        return "Forbidden"
    return "Invalid" if error.status < 500 and not isinstance(error, Unavailable) else "ServerError"


def by_node(subject: str, answer: Answer) -> Refused:
    """The reason and message of a rejection by a node."""
    if answer.code in {ErrorCode.UNAUTHORIZED, "401", "403"}:
        message = (
            f"the leader's node rejects the admin token: {answer.message}. After a change of the Secret a node"
            " reads it within two minutes, and a node of an older version reads it only at its next start"
        )
        return Refused(subject, TOKEN_REFUSED, message, 1.0, 60.0)
    return Refused(subject, "NodeRefused", f"{answer.code}: {answer.message}", 0.2, 15.0, 5)
