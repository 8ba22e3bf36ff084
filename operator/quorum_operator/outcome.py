"""What came of a step: what was done, and what was refused and why."""

from dataclasses import dataclass

from quorum_operator.attempts import Refused
from quorum_operator.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from quorum_operator.refused import by_api, is_outage


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step. `changed`: something was done, look again at once.

    `refused`: what was not done, and why. `outdated`: because the objects are not as they were seen.
    `exists`: something that no look has shown has that name.
    """

    changed: bool
    message: str = ""
    refused: tuple[Refused, ...] = ()
    outdated: bool = False
    left: str | None = None
    """Which part of a template the API server, or a webhook, has made otherwise than it was sent."""
    exists: bool = False


def together(outcomes: list[Outcome]) -> Outcome:
    """Of a step on several objects, each by itself."""
    return Outcome(
        any(each.changed for each in outcomes),
        "; ".join(each.message for each in outcomes if each.message),
        tuple(refused for each in outcomes for refused in each.refused),
        any(each.outdated for each in outcomes),
    )


def not_done(subject: str, error: ApiError) -> Outcome:
    if is_outage(error):
        raise error
    refused = by_api(subject, error)
    outdated = isinstance(error, AlreadyExists | Conflict | NotFound)
    exists = isinstance(error, AlreadyExists)
    return Outcome(False, refused.message, (refused,), outdated, exists=exists)
