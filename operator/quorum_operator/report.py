"""Writes the status of a resource, and events about it.

Owns when an event is posted and when the status is written. Pure parts of the planner produce the content.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from quorum_operator.attempts import Refused
from quorum_operator.desired.names import Owner
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError, Conflict, NotFound
from quorum_operator.kube.events import post_event
from quorum_operator.metrics import Metrics
from quorum_operator.outcome import Outcome
from quorum_operator.planner.conditions import REFUSED, SPEC_INVALID, Finding
from quorum_operator.planner.status import condition_of
from quorum_operator.planner.status_events import StatusEvent, status_events
from quorum_operator.planner.step import LatchFailure, Step
from quorum_operator.refused import is_outage
from quorum_operator.status_crd import Condition, MetadataQuorumStatus

Object = dict[str, Any]

REPORTED_TIMES = 3
"""Number of repetitions of a step that are reported."""

STATUS_REFUSED = "StatusRefused"
"""Reason of the event if the API server rejects the status."""

POST_S = 5.0
"""Time limit for posting an event, which delays the steps."""

_log = structlog.get_logger("quorum_operator")


class Reporter:
    """Writes to all MetadataQuorums. `clock`: seconds since 1970, of the API server if known."""

    def __init__(self, api: KubeApi, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._api, self._metrics, self._clock = api, metrics, clock
        self._posted: dict[str, set[tuple[str, str]]] = {}
        """Reason and message of the events about a resource (by UID) whose status can't be written. Each is posted once,
        although it remains news compared with the last status.
        """

    async def report_step(self, owner: Owner, step: Step, outcome: Outcome, times: int) -> None:
        """Post an event for a step. `times`: how often in a row it was executed, or refused for the same reason."""
        if outcome.refused:
            if times == 1:
                refusals = "; ".join(f"{each.subject}: {each.reason}" for each in outcome.refused)
                message = f"{step.reason} — {refusals} — {outcome.message}"
                await self.post(owner, "Warning", type(step).__name__, message)
        elif times <= REPORTED_TIMES:
            kind = "Warning" if isinstance(step, LatchFailure) else "Normal"
            message = step.reason + (f" — {outcome.message}" if outcome.message else "")
            await self.post(owner, kind, type(step).__name__, message)

    async def post(self, owner: Owner, kind: str, reason: str, message: str) -> None:
        """Post an event; a failure is logged."""
        try:
            async with asyncio.timeout(POST_S):
                await post_event(
                    self._api, owner, kind=kind, reason=reason, message=message, at=self._clock()
                )
        except (ApiError, TimeoutError) as error:
            error_text = str(error) or type(error).__name__
            _log.warning("event not posted", quorum=owner.name, error=error_text)

    async def write(
        self,
        path: str,
        resource: Object,
        status: MetadataQuorumStatus,
        earlier: MetadataQuorumStatus,
        owner: Owner,
    ) -> None:
        """Write the status if it has changed, and post an event for each change to report. A rejection is reported by an
        event: it must not delay the steps.
        """
        found = [each for each in status_events(status, earlier) if self._is_new(owner, each)]
        events = [self.post(owner, each.kind, each.reason, each.message) for each in found]
        written, *_ = await asyncio.gather(
            self._write_status(path, resource, status, earlier, owner), *events
        )
        if written:
            self._posted.pop(owner.uid, None)
        else:
            self._posted.setdefault(owner.uid, set()).update(map(_key, found))

    def _is_new(self, owner: Owner, event: StatusEvent) -> bool:
        return _key(event) not in self._posted.get(owner.uid, ())

    async def hold(self, path: str, resource: Object, finding: Finding) -> None:
        """Set one condition if no status can be computed; the rest of the status is kept.

        It is written, and reported by an event, when it becomes true or its reason or message changes.
        """
        meta = resource["metadata"]
        before = _conditions(resource)
        condition = condition_of(
            finding, before, generation=int(meta.get("generation", 0)), now=self._clock()
        )
        if any(
            (each.type, each.status, each.reason, each.message)
            == (condition.type, condition.status, condition.reason, condition.message)
            for each in before
        ):
            return
        others = [each for each in before if each.type != condition.type]
        body = [each.model_dump(mode="json", by_alias=True) for each in (*others, condition)]
        owner = Owner(meta["name"], meta["namespace"], meta["uid"])
        event = StatusEvent("Warning", condition.reason, condition.message)
        if await self._patch(path, resource, {"conditions": body}, owner):
            self._posted.pop(owner.uid, None)
        elif self._is_new(owner, event):
            self._posted.setdefault(owner.uid, set()).add(_key(event))
        else:
            return
        await self.post(owner, event.kind, event.reason, event.message)

    async def _write_status(
        self,
        path: str,
        resource: Object,
        status: MetadataQuorumStatus,
        earlier: MetadataQuorumStatus,
        owner: Owner,
    ) -> bool:
        """Returns whether the written status is this one, or may be soon."""
        self._metrics.set_status(owner.namespace, owner.name, status)
        if same(status, earlier):
            return True
        body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        # A merge patch keeps fields that it does not name, so removed fields are set to null.
        for key, old in (resource.get("status") or {}).items():
            new = body.setdefault(key, None)
            if isinstance(old, dict) and isinstance(new, dict):
                body[key] = {**dict.fromkeys(old), **new}
        return await self._patch(path, resource, body, owner)

    async def _patch(self, path: str, resource: Object, body: Object, owner: Owner) -> bool:
        """Write the status. Returns False if the API server rejects it. Raises ApiError if it is unavailable."""
        try:
            await self._merge(path, resource, body)
        except (Conflict, NotFound):
            _log.debug("status not written: the resource has changed", quorum=owner.name)
        except ApiError as error:
            if is_outage(error):
                raise
            _log.warning("status rejected", quorum=owner.name, error=str(error))
            rejected = StatusEvent(
                "Warning", STATUS_REFUSED, f"the status is outdated: {error.message}"
            )
            if self._is_new(owner, rejected):
                self._posted.setdefault(owner.uid, set()).add(_key(rejected))
                await self.post(owner, rejected.kind, rejected.reason, rejected.message)
            return False
        return True

    async def _merge(self, path: str, resource: Object, body: Object) -> None:
        """Write the status that was made from `resource`. Raises ApiError.

        Another client may change labels or annotations again and again. Its changes don't concern the status, which
        would never be written, nor would the times of suspicions in it.
        """
        try:
            await self._api.merge(f"{path}/status", _conditional(resource, body))
        except Conflict:
            now = await self._api.get(path)
            if now is None or _reported(now) != _reported(resource):
                raise
            await self._api.merge(f"{path}/status", _conditional(now, body))


def _conditional(resource: Object, body: Object) -> Object:
    """The patch of the status of exactly this version."""
    version = resource["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version}, "status": body}


def _reported(resource: Object) -> object:
    """What a status is made from, and the status that it replaces."""
    meta = resource["metadata"]
    state = tuple(meta.get(each) for each in ("uid", "generation", "deletionTimestamp"))
    return state, resource.get("status")


def _key(event: StatusEvent) -> tuple[str, str]:
    return event.reason, event.message


def blocked(refused: Refused) -> Finding:
    """The condition of a resource that can't be observed."""
    return Finding(REFUSED, True, refused.reason, f"{refused.subject}: {refused.message}")


def invalid(problems: str) -> Finding:
    """The condition of a resource with an unreadable spec."""
    text = f"{problems}. Correct the spec; until then this resource is not reconciled"
    return Finding(SPEC_INVALID, True, "SpecInvalid", text)


def _conditions(resource: Object) -> list[Condition]:
    found = (resource.get("status") or {}).get("conditions") or []
    kept = []
    for each in found:
        try:
            kept.append(Condition.model_validate(each))
        except ValueError:
            continue  # It was written by another client and is not kept.
    return kept


def same(status: MetadataQuorumStatus, earlier: MetadataQuorumStatus) -> bool:
    """Whether there is nothing to write."""
    return _comparable(status) == _comparable(earlier)


def _comparable(status: MetadataQuorumStatus) -> Object:
    """The status without values that change constantly and are not worth a write."""
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    for member in document["members"]:
        member.pop("lag", None)
    return document
