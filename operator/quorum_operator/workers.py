"""One worker per resource of a kind: woken by events, by its own schedule, or by the resync period.

Owns only the tasks. A worker runs one reconcile at a time; wake-ups during it lead to exactly one more.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import structlog

from quorum_operator.awaited_calls import recorded
from quorum_operator.backoff import delay_s
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.rate_limit import TokenBucket, call_for
from quorum_operator.metrics import Metrics, Reconciled
from quorum_operator.reconcile import Next

RETRY_ERROR_S = 1.0
RETRY_ERROR_MAX_S = 60.0
RETRY_WOKEN_MAX_S = 5.0
"""After errors a change of the resource is handled at once, a change of its parts after at least this time."""
RECONCILE_LIMIT_S = 60.0
RECONCILES_PER_S = 4.0
RECONCILES_AT_ONCE = 100
"""Rate limit of reconciles of one resource: a burst of RECONCILES_AT_ONCE, then RECONCILES_PER_S."""
SIDE_BY_SIDE = 25
"""Maximum number of concurrent reconciles of a kind. When an operator starts, all are due at once; without this limit
each would exceed its time limit.
"""
RESTING_AT_ONCE = 5
"""Maximum number of concurrent reconciles without a change, so that slow calls do not delay resources with work to do."""

_log = structlog.get_logger("quorum_operator")


class _Wake:
    """Wake-up state of one worker."""

    def __init__(self) -> None:
        self.any = asyncio.Event()
        self.changed = asyncio.Event()
        """The resource itself has changed."""
        self._since: float | None = None

    def set(self, *, changed: bool = False) -> None:
        """Wake the worker. `changed`: the resource itself has changed."""
        if changed:
            self.changed.set()
        if not self.any.is_set():
            self._since = asyncio.get_running_loop().time()
        self.any.set()

    def clear(self) -> None:
        """Reset, so that later changes wake it again."""
        self.any.clear()
        self.changed.clear()
        self._since = None

    def due_at(self, ended_at: float, at_latest: float) -> float:
        """Time at which work became due after a reconcile that ended then, by the event loop's clock."""
        return at_latest if self._since is None else min(max(self._since, ended_at), at_latest)


@dataclass(slots=True)
class _Worker:
    task: asyncio.Task[None]
    wake: _Wake


class Reconciling(Protocol):
    """Interface of a reconciler."""

    async def reconcile(self, namespace: str, name: str) -> Next:
        """Run one reconcile. Raises ApiError if the API server can't be used."""


class Workers:
    """All workers of this process for one kind, by (namespace, name)."""

    def __init__(
        self, kind: str, reconciler: Reconciling, metrics: Metrics, resync_s: float
    ) -> None:
        self._kind = kind
        self._reconciler, self._metrics, self._resync_s = reconciler, metrics, resync_s
        self._workers: dict[tuple[str, str], _Worker] = {}
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)
        self._resting = asyncio.Semaphore(RESTING_AT_ONCE)

    def wake(self, namespace: str, name: str) -> None:
        """Wake the worker of this resource, if there is one."""
        worker = self._workers.get((namespace, name))
        if worker is not None:
            worker.wake.set()

    def ensure(self, namespace: str, name: str) -> None:
        """Start a worker, or wake the existing one."""
        place = (namespace, name)
        worker = self._workers.get(place)
        if worker is not None and not worker.task.done():
            worker.wake.set(changed=True)
            return
        wake = _Wake()
        self._metrics.watch(Reconciled(self._kind, namespace, name))
        task = asyncio.create_task(self._work(namespace, name, wake), name=f"{namespace}/{name}")
        self._workers[place] = _Worker(task, wake)

    def has(self, namespace: str, name: str) -> bool:
        """Whether this resource has a worker."""
        return (namespace, name) in self._workers

    def cancel(self) -> "asyncio.Future[list[BaseException | None]]":
        """Cancel all workers. The future completes when they have ended. An interrupted step is safe to repeat."""
        tasks = [worker.task for worker in self._workers.values()]
        for task in tasks:
            task.cancel()
        for place in self._workers:  # A task that has not started does not run its own clean-up.
            self._metrics.forget(Reconciled(self._kind, *place))
        return asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Cancel all workers and wait for them."""
        await self.cancel()

    def names(self) -> Iterator[tuple[str, str]]:
        """Resources with a worker."""
        return iter(tuple(self._workers))

    async def _work(self, namespace: str, name: str, wake: _Wake) -> None:
        resource = Reconciled(self._kind, namespace, name)
        try:
            await self._run(resource, wake)
        finally:
            self._workers.pop((namespace, name), None)
            self._metrics.forget(resource)

    async def _reconcile(self, resource: Reconciled) -> tuple[Next, str | None]:
        """Run one reconcile. Returns when the next one is due, and the kind of its error, if any."""
        _, namespace, name = resource
        self._metrics.begin(resource)
        error: str | None = None
        due = Next()
        try:
            with recorded() as awaited:
                async with asyncio.timeout(RECONCILE_LIMIT_S):
                    due = await self._reconciler.reconcile(namespace, name)
        except TimeoutError as caught:
            error = type(caught).__name__
            message = (
                f"it took more than {RECONCILE_LIMIT_S:.0f} s; awaited at the end: {awaited.text()}"
            )
            _log.warning("reconcile failed", kind=self._kind, name=name, error=message)
        except ApiError as caught:
            error = type(caught).__name__
            _log.warning("reconcile failed", kind=self._kind, name=name, error=str(caught) or error)
        except Exception as caught:
            # A bug must not end the worker: the next reconcile may succeed.
            error = type(caught).__name__
            _log.exception("reconcile failed", kind=self._kind, name=name)
        finally:
            self._metrics.end(resource, error)
        return due, error

    @asynccontextmanager
    async def _place(self, wake: _Wake, *, rests: bool) -> AsyncIterator[None]:
        """Hold a slot for one reconcile. `rests`: it is only periodic."""
        holds = rests and await _first(self._resting, wake.any)
        try:
            async with self._places:
                yield
        finally:
            if holds:
                self._resting.release()

    async def _run(self, resource: Reconciled, wake: _Wake) -> None:
        failures, now = 0, asyncio.get_running_loop().time
        _, namespace, name = resource
        call_for(f"{self._kind}/{namespace}/{name}")
        # In every log line of this task: quorums of several namespaces may have the same name.
        structlog.contextvars.bind_contextvars(namespace=namespace)
        limit = TokenBucket(RECONCILES_PER_S, RECONCILES_AT_ONCE, now)
        ended_at = due_at = now()
        rests = False
        while True:
            own_s = limit.take()
            await asyncio.sleep(own_s)
            async with self._place(wake, rests=rests and not wake.any.is_set()):
                # The backoff after an error and the delay by the resource's own rate limit do not
                # count as waiting.
                if not failures:
                    self._metrics.waited(max(now() - wake.due_at(ended_at, due_at) - own_s, 0.0))
                wake.clear()
                due, error = await self._reconcile(resource)
            if due.finished and not wake.any.is_set():
                break  # Not after a wake-up meanwhile: a new resource of that name may exist.
            failures = failures + 1 if error is not None else 0
            after_s = self._resync_s if due.after_s is None else due.after_s
            if failures:
                after_s = delay_s(failures, RETRY_ERROR_S, RETRY_ERROR_MAX_S)
            self._metrics.wait(resource, after_s)
            rests = due.after_s is None and not failures
            ended_at = now()
            due_at = ended_at + after_s
            if failures:
                at_least_s = min(after_s, RETRY_WOKEN_MAX_S)
                await _wait(wake.changed, at_least_s)
                after_s -= at_least_s
            if not wake.changed.is_set():
                await _wait(wake.any, after_s)


async def _first(places: asyncio.Semaphore, wake: asyncio.Event) -> bool:
    """Wait for a free slot or a wake-up, whichever comes first. Returns whether a slot was acquired."""
    if not places.locked():
        return await places.acquire()
    place, woken = asyncio.create_task(places.acquire()), asyncio.create_task(wake.wait())
    try:
        await asyncio.wait({place, woken}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        if place.done():
            places.release()
        raise
    finally:
        place.cancel()
        woken.cancel()
    return place.done()


async def _wait(wake: asyncio.Event, after_s: float) -> None:
    try:
        async with asyncio.timeout(after_s):
            await wake.wait()
    except TimeoutError:
        pass
