"""Which of several operators works: the holder of a Lease (coordination.k8s.io).

Owns when a lease is renewed, taken over and given up, and the gate that every call which changes something passes.
Others are judged by a lease that stays the same for its duration on the own clock, never by the times written in it. A
holder stops before that: when it has not renewed for `Terms.deadline_s`, counted from before it asked. Steps
stay safe with two operators at work all the same, for no gate can hold back a call that is on its way.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog

from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable

Object = dict[str, Any]
Clock = Callable[[], float]

_log = structlog.get_logger("quorum_operator")


def clock() -> float:
    """Seconds since the machine was started, also while it was suspended; nobody can set it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Terms:
    """Times of a lease. `deadline_s` is less than `duration_s` by what one call may take."""

    duration_s: int = 10
    """For so long nobody else takes it, counted from when the others see it renewed."""
    deadline_s: float = 7.0
    """For so long the holder works without renewing it."""
    period_s: float = 2.0
    """Between two renewals, and between two looks of the others."""
    retry_s: float = 0.5
    """Until the next attempt of a holder that could not renew."""
    call_s: float = 5.0
    """Limit of one attempt."""


class NotLeading(Unavailable):
    """Nothing was changed: this operator does not hold the lease (any more)."""

    def __init__(self) -> None:
        super().__init__(0, "NotLeading", "this operator does not hold the lease")


class Place(NamedTuple):
    """Where the Lease is."""

    namespace: str
    name: str


class Seen(NamedTuple):
    """The lease of another, and until when it is that one's unless it changes, by the own clock."""

    version: str
    until: float


class Always:
    """The leadership of an operator that has no others."""

    def check(self) -> None:
        """It leads."""


class Leadership:
    """Strives for one lease for as long as `run` runs. `identity` names this operator, across restarts of its pod.

    `works`: whether it could do anything with the lease; else it leaves it to others.
    """

    def __init__(
        self,
        api: KubeApi,
        place: Place,
        identity: str,
        *,
        terms: Terms = Terms(),
        clock: Clock = clock,
        works: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api, self._place, self._identity = api, place, identity
        self._terms, self._clock, self._works = terms, clock, works
        self._until = 0.0
        self._own: Object | None = None
        """The lease as this operator wrote it last; None when it has to be read first."""
        self._other: Seen | None = None

    def leads(self) -> bool:
        """Whether it may change something now."""
        return self._clock() < self._until

    def check(self) -> None:
        """Raises NotLeading unless it leads."""
        if not self.leads():
            raise NotLeading

    async def run(self, gained: Callable[[], None], lost: Callable[[], None]) -> None:
        """Take the lease, renew it, take it again; `gained` and `lost` are called in turns. Runs until cancelled."""
        while True:
            await self._take()
            _log.info("leading", lease="/".join(self._place), identity=self._identity)
            gained()
            try:
                await self._keep()
            finally:
                self._until = 0.0
                lost()
            _log.warning("no longer leading", lease="/".join(self._place), identity=self._identity)

    async def give_up(self) -> None:
        """Let another one take it at once. Call it after `run` was cancelled and all work has ended."""
        self._until = 0.0
        try:
            async with asyncio.timeout(self._terms.call_s):
                found = await self._api.get(self._path)
                if found is not None and _holder(found) == self._identity:
                    await self._write(found, {"holderIdentity": ""})
        except (ApiError, TimeoutError) as error:
            _log.warning("the lease could not be given up", error=str(error))

    @property
    def _path(self) -> str:
        return paths.namespaced("leases", *self._place)

    async def _take(self) -> None:
        taken = await self._attempt()
        while not taken:
            await asyncio.sleep(self._pause_s())
            taken = await self._attempt()

    async def _keep(self) -> None:
        """Returns when it is lost."""
        pause_s = self._terms.period_s
        while True:
            await asyncio.sleep(min(pause_s, max(self._until - self._clock(), 0.0)))
            left_s = self._until - self._clock()
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(left_s):
                    renewed = await self._attempt()
            except TimeoutError:
                return
            if self._other is not None:
                return
            pause_s = self._terms.period_s if renewed else self._terms.retry_s

    async def _attempt(self) -> bool:
        """Take or renew it once. False: another one has it, or the API server did not help."""
        if not self._works():
            _log.error("lease not renewed: the event loop is blocked", identity=self._identity)
            return False
        asked_at = self._clock()
        own, self._own = self._own, None
        try:
            async with asyncio.timeout(self._terms.call_s):
                self._own = await self._claimed(own)
        except (Conflict, AlreadyExists, NotFound):
            return False  # someone was faster: the next look shows whom
        except (ApiError, TimeoutError) as error:
            _log.warning("lease not renewed", error=str(error) or type(error).__name__)
            return False
        if self._own is None:
            return False
        self._until = asked_at + self._terms.deadline_s
        return True

    async def _claimed(self, own: Object | None) -> Object | None:
        """The lease, ours and renewed; None while it is another's."""
        found = own or await self._api.get(self._path)
        if found is None:
            return await self._create()
        if not self._is_free(found):
            return None
        if _holder(found) == self._identity:
            return await self._write(found, {"renewTime": _now_text()})
        transitions = int(found["spec"].get("leaseTransitions") or 0) + 1
        return await self._write(found, {**self._claim(), "leaseTransitions": transitions})

    def _is_free(self, found: Object) -> bool:
        """Whether it is ours, nobody's, or was not renewed for its whole duration under our eyes.

        That counts from when its answer came: it may have been renewed while the question was on its way.
        """
        holder, now = _holder(found), self._clock()
        if holder in {"", self._identity}:
            self._other = None
            return True
        version = str(found["metadata"]["resourceVersion"])
        if self._other is None or self._other.version != version:
            duration_s = found["spec"].get("leaseDurationSeconds") or self._terms.duration_s
            self._other = Seen(version, now + duration_s)
            return False
        if now < self._other.until:
            return False
        _log.info("the lease was not renewed", holder=holder)
        self._other = None
        return True

    def _pause_s(self) -> float:
        """Until the next look: a lease that is about to end is looked at when it does."""
        if self._other is None:
            return self._terms.period_s
        return min(self._terms.period_s, max(self._other.until - self._clock(), 0.1))

    def _claim(self) -> Object:
        now = _now_text()
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._terms.duration_s,
            "acquireTime": now,
            "renewTime": now,
        }

    async def _create(self) -> Object:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._place.name, "namespace": self._place.namespace},
            "spec": {**self._claim(), "leaseTransitions": 0},
        }
        return await self._api.create(paths.namespaced("leases", self._place.namespace), body)

    async def _write(self, found: Object, spec: Object) -> Object:
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        return await self._api.merge(self._path, {"metadata": meta, "spec": spec})


def _holder(found: Object) -> str:
    return str((found.get("spec") or {}).get("holderIdentity") or "")


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
