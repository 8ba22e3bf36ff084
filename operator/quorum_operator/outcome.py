"""The outcome of a step: what was done, or why it was refused."""

from dataclasses import dataclass

from quorum_operator.attempts import Refused
from quorum_operator.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from quorum_operator.refused import by_api, is_outage


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a step.

    `changed`: something was done; reconcile again at once. `refused`: what was not done, and why. `outdated`: the
    objects have changed since the observation. `exists`: an unobserved object with that name exists.
    """

    changed: bool
    message: str = ""
    refused: tuple[Refused, ...] = ()
    outdated: bool = False
    left: str | None = None
    """Part of a template that the API server or a webhook stored differently."""
    exists: bool = False


def together(outcomes: list[Outcome]) -> Outcome:
    """Combine the outcomes of a step on several objects."""
    return Outcome(
        any(each.changed for each in outcomes),
        "; ".join(each.message for each in outcomes if each.message),
        tuple(refused for each in outcomes for refused in each.refused),
        any(each.outdated for each in outcomes),
    )


def not_done(subject: str, error: ApiError) -> Outcome:
    """The outcome of a step on this object that the API server has refused. Raises `error` if the API server is unavailable."""
    if is_outage(error):
        raise error
    refused = by_api(subject, error)
    outdated = isinstance(error, AlreadyExists | Conflict | NotFound)
    exists = isinstance(error, AlreadyExists)
    return Outcome(False, refused.message, (refused,), outdated, exists=exists)
