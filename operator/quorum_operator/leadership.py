"""Leader election of operators by a Lease (coordination.k8s.io).

Owns renewal, takeover and release of the lease, and the check before every write. The lease of another holder expires
when it stays unchanged for its duration by the own clock; the times in it are never used. A holder stops earlier: when
it has not renewed the lease for `Terms.deadline_s`, counted from before its request. Steps are safe even with two
active operators, because a call in flight can't be stopped.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog

from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from quorum_operator.namespaced_name import NamespacedName

Object = dict[str, Any]
Clock = Callable[[], float]

_log = structlog.get_logger("quorum_operator")


MOST_S = 30
"""Maximum time, in seconds, for which an unchanged lease counts as held. No operator writes a longer duration, and an
edited one must not keep all operators from working.
"""
MOST_TRANSITIONS = 2**31 - 1
"""Maximum of `leaseTransitions`. The API server rejects a lease with a larger number."""


def clock() -> float:
    """Seconds since boot, including suspension. This clock can't be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Terms:
    """Times of a lease. `deadline_s` is shorter than `duration_s` by the duration of one call."""

    duration_s: int = 10
    """Time during which no other operator takes the lease, counted from when it reads the renewal."""
    deadline_s: float = 7.0
    """Time for which the holder stays active without a renewal."""
    period_s: float = 2.0
    """Interval of renewals, and of checks by other operators."""
    retry_s: float = 0.5
    """Delay of the next attempt after a failed renewal."""
    call_s: float = 5.0
    """Time limit of one attempt."""


class NotLeading(Unavailable):
    """Nothing was changed, because this operator does not hold the lease."""

    def __init__(self) -> None:
        super().__init__(0, "NotLeading", "this operator does not hold the lease")


class Seen(NamedTuple):
    """What another holder has written into the lease, and the time by the own clock until which it is valid unless that
    changes. Edits of the object's metadata are no renewals.
    """

    written: str
    until: float


class Always:
    """Leadership without a lease, for a single operator."""

    def check(self) -> None:
        """Always allowed."""


class Leadership:
    """Acquires and renews one lease while `run` runs. `identity` names this operator across restarts of its
    container.

    `works`: whether this operator is able to work; otherwise it leaves the lease to others.
    """

    def __init__(
        self,
        api: KubeApi,
        lease: NamespacedName,
        identity: str,
        *,
        terms: Terms = Terms(),
        clock: Clock = clock,
        works: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api, self._lease, self._identity = api, lease, identity
        self._terms, self._clock, self._works = terms, clock, works
        self._until = 0.0
        self._own: Object | None = None
        """The lease as last written by this operator; None if it has to be read first."""
        self._other: Seen | None = None

    def leads(self) -> bool:
        """Whether this operator may write now."""
        return self._clock() < self._until

    def check(self) -> None:
        """Raise NotLeading unless this operator holds the lease."""
        if not self.leads():
            raise NotLeading

    async def run(self, gained: Callable[[], None], lost: Callable[[], None]) -> None:
        """Acquire and renew the lease repeatedly, until cancelled. Calls `gained` and `lost` alternately."""
        while True:
            await self._take()
            _log.info("leading", lease="/".join(self._lease), identity=self._identity)
            gained()
            try:
                await self._keep()
            finally:
                self._until = 0.0
                lost()
            _log.warning(
                "no longer leading: all work stops until the lease is held again",
                lease="/".join(self._lease),
                identity=self._identity,
            )

    async def give_up(self) -> None:
        """Release the lease, after `run` was cancelled and all work has ended."""
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
        return paths.namespaced("leases", *self._lease)

    async def _take(self) -> None:
        taken = await self._attempt()
        while not taken:
            await asyncio.sleep(self._pause_s())
            taken = await self._attempt()

    async def _keep(self) -> None:
        """Renew until the lease is lost."""
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
        """Acquire or renew it once. False: another operator holds it, or the API server failed."""
        if not self._works():
            _log.error(
                "lease not renewed: the event loop is blocked, so another operator takes over; check the CPU limit of this pod",
                identity=self._identity,
            )
            return False
        started_at = self._clock()
        own, self._own = self._own, None
        try:
            async with asyncio.timeout(self._terms.call_s):
                self._own = await self._claimed(own)
        except (Conflict, AlreadyExists, NotFound):
            return False  # Another operator was faster: the next attempt reads the new holder.
        except (ApiError, TimeoutError) as error:
            _log.warning("lease not renewed", error=str(error) or type(error).__name__)
            return False
        if self._own is None:
            return False
        self._until = started_at + self._terms.deadline_s
        return True

    async def _claimed(self, own: Object | None) -> Object | None:
        """Acquire or renew the lease and return it; None while another operator holds it."""
        found = own or await self._api.get(self._path)
        if found is None:
            return await self._create()
        if not self._is_free(found):
            return None
        if _holder(found) == self._identity:
            # Other operators use the duration in the lease, which may have been edited.
            lasts = {"leaseDurationSeconds": self._terms.duration_s}
            return await self._write(found, {**lasts, "renewTime": _now_text()})
        changes = int(_spec(found).get("leaseTransitions") or 0)
        transitions = changes + 1 if 0 <= changes < MOST_TRANSITIONS else 1
        return await self._write(found, {**self._claim(), "leaseTransitions": transitions})

    def _is_free(self, found: Object) -> bool:
        """Whether this operator or none holds it, or it was not renewed for its whole duration since it was first read."""
        holder, now = _holder(found), self._clock()
        if holder in {"", self._identity}:
            self._other = None
            return True
        written = json.dumps(_spec(found), sort_keys=True)
        if self._other is None or self._other.written != written:
            duration_s = _spec(found).get("leaseDurationSeconds") or 0
            # At least the own duration: the holder may stay active that long without a renewal.
            self._other = Seen(written, now + min(max(duration_s, self._terms.duration_s), MOST_S))
            return False
        if now < self._other.until:
            return False
        _log.info("the holder has not renewed the lease: taking it over", holder=holder)
        self._other = None
        return True

    def _pause_s(self) -> float:
        """Seconds until the next check; an expiring lease is checked when it expires."""
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
            "metadata": {"name": self._lease.name, "namespace": self._lease.namespace},
            "spec": {**self._claim(), "leaseTransitions": 0},
        }
        return await self._api.create(paths.namespaced("leases", self._lease.namespace), body)

    async def _write(self, found: Object, spec: Object) -> Object:
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        return await self._api.merge(self._path, {"metadata": meta, "spec": spec})


def _spec(found: Object) -> Object:
    return found.get("spec") or {}


def _holder(found: Object) -> str:
    return str(_spec(found).get("holderIdentity") or "")


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
