"""Rate limits for calls to the API server: for the whole operator and for each resource.

Owns the token buckets and the attribution of calls. Backoff (`attempts.py`) reduces failing calls; this module limits
all calls.
"""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

MOST_BUCKETS = 10_000
"""Maximum number of buckets; full ones are dropped first."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A burst of `at_once` calls, then `per_s` calls every second."""

    per_s: float
    at_once: int


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of one client."""

    all: Limit = Limit(400.0, 2000)
    """Limit of all resources together. The repair of one member takes about 80 calls; many may be repaired at once."""
    resource: Limit = Limit(40.0, 500)
    """Limit of each resource."""


USUAL_LIMITS = CallLimits()

_caller: ContextVar[str] = ContextVar("caller", default="")


def call_for(resource: str) -> None:
    """Attribute the calls of this task to this resource from here on."""
    _caller.set(resource)


class TokenBucket:
    """A bucket of `at_once` tokens, refilled with `per_s` tokens per second. `clock`: seconds, monotonic."""

    def __init__(
        self, per_s: float, at_once: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._at_once, self._clock = per_s, at_once, clock
        self._tokens = float(at_once)
        self._filled_at = clock()

    def take(self) -> float:
        """Take one token. Returns the seconds until it is available; later callers wait longer."""
        self._fill()
        self._tokens -= 1.0
        return max(-self._tokens / self._per_s, 0.0)

    def full(self) -> bool:
        """Whether the bucket is full."""
        self._fill()
        return self._tokens >= self._at_once

    def _fill(self) -> None:
        now = self._clock()
        grown = (now - self._filled_at) * self._per_s
        self._tokens, self._filled_at = min(self._tokens + grown, self._at_once), now


class RateLimiter:
    """Rate limiter for one client of the API server."""

    def __init__(self, limits: CallLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._all = TokenBucket(limits.all.per_s, limits.all.at_once, clock)
        self._resources: dict[str, TokenBucket] = {}

    async def admit(self) -> None:
        """Wait until the call is allowed. The resource's own limit comes first, so that it delays no other resource."""
        caller = _caller.get()
        if caller:
            await _sleep(self._bucket_of(caller).take())
        await _sleep(self._all.take())

    def _bucket_of(self, caller: str) -> TokenBucket:
        bucket = self._resources.get(caller)
        if bucket is None:
            if len(self._resources) >= MOST_BUCKETS:
                self._resources = {k: v for k, v in self._resources.items() if not v.full()}
            limit = self._limits.resource
            bucket = TokenBucket(limit.per_s, limit.at_once, self._clock)
            self._resources[caller] = bucket
        return bucket


async def _sleep(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)
