"""The thread of the lease: it renews while the main event loop is busy, and not when that is blocked for good."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from quorum_operator import lease_thread
from quorum_operator.leadership import Terms
from quorum_operator.lease_thread import LeaseThread
from quorum_operator.namespaced_name import NamespacedName

Json = dict[str, Any]
SHORT = Terms(duration_s=2, deadline_s=1.0, period_s=0.1, retry_s=0.05)


class Api:
    """One lease, and how often it was written."""

    def __init__(self) -> None:
        self.terms = SHORT
        self.lease: Json | None = None
        self.writes = 0

    async def get(self, path: str) -> Json | None:
        return self.lease

    async def create(self, path: str, body: Json) -> Json:
        return self._write(body["spec"])

    async def merge(self, path: str, body: Json) -> Json:
        return self._write({**(self.lease or {})["spec"], **body["spec"]})

    def _write(self, spec: Json) -> Json:
        self.writes += 1
        self.lease = {"metadata": {"resourceVersion": str(self.writes)}, "spec": spec}
        return self.lease

    async def __aexit__(self, *_: object) -> None:
        return None


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(lease_thread, "BEAT_S", 0.05)
    made, real = Api(), lease_thread.Leadership
    monkeypatch.setattr(
        lease_thread, "Leadership", lambda *place, **more: real(*place, terms=made.terms, **more)
    )
    return made


async def until(holds: Any) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.01)


def test_busy_event_loop_keeps_the_lease(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Far beyond what a busy machine may take from its thread.
    monkeypatch.setattr(lease_thread, "BLOCKED_S", 3600.0)
    api.terms = replace(SHORT, duration_s=80, deadline_s=60.0)

    async def work() -> list[str]:
        reported: list[str] = []
        lease = LeaseThread(api, NamespacedName("n", "l"), "me")
        lease.start(lambda: reported.append("gained"), lambda: reported.append("lost"))
        await until(lambda: reported)
        before = api.writes
        ends_at = time.monotonic() + 50
        while api.writes < before + 10 and time.monotonic() < ends_at:
            time.sleep(0.1)  # noqa: ASYNC251 - that is what is tried
        assert lease.leadership.leads()
        assert api.writes >= before + 10
        assert reported == ["gained"]
        await lease.stop()
        return reported

    assert asyncio.run(work())[0] == "gained"
    assert api.lease["spec"]["holderIdentity"] == ""


@pytest.mark.requirement("OP-03")
async def test_blocked_event_loop_loses_the_lease(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_thread, "BLOCKED_S", 1.0)
    reported: list[str] = []
    lease = LeaseThread(api, NamespacedName("n", "l"), "me")
    lease.start(lambda: reported.append("gained"), lambda: reported.append("lost"))
    await until(lambda: reported)
    time.sleep(3.0)  # noqa: ASYNC251 - that is what is tried
    assert not lease.leadership.leads()
    writes = api.writes
    time.sleep(0.5)  # noqa: ASYNC251
    assert api.writes == writes, "another holder could take it"
    await until(lambda: reported[:3] == ["gained", "lost", "gained"])
    await lease.stop()


def test_lease_thread_that_was_never_started_can_be_stopped(api: Any) -> None:
    asyncio.run(LeaseThread(api, NamespacedName("n", "l"), "me").stop())
