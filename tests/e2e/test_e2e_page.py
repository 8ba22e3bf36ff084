"""The live page with a real quorum: a disk fails, its replica is replaced, the leader is killed."""

from collections.abc import Callable

import httpx
import pytest

from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.live_page import Browser, Tables, forwarded, installed_browser, served
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.testbed import state_directory
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

_SHOWN_WITHIN_S = 60.0


@pytest.fixture(params=["http client", "browser"])
def browser(request: pytest.FixtureRequest) -> Browser | None:
    """What opens the page. Without a browser that part is skipped."""
    if request.param == "http client":
        return None
    found = installed_browser()
    if found is None:
        pytest.skip("no browser on PATH: install Debian's package chromium, or Chrome")
    return found


@pytest.mark.requirement("OP-10")
def test_live_page_shows_a_failed_disk_its_replacement_and_a_new_leader(
    ready_cluster: OperatorCluster, browser: Browser | None, env: KindEnv
) -> None:
    with forwarded(ready_cluster) as url, pytest.raises(httpx.TransportError):
        httpx.get(url, timeout=10, trust_env=False)  # until it is enabled
    quorum = env.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    section = f"{env.namespace}/{quorum.name}"
    with served(ready_cluster, browser, state_directory() / "live-page") as page:

        def shows(what: str, holds: Callable[[Tables], object], timeout_s: float) -> Tables:
            def probe() -> Tables | None:
                try:
                    shown = page.section(env.namespace, quorum.name)
                except (httpx.HTTPError, LookupError):
                    return None
                return shown if holds(shown) else None

            return wait_for(f"the page: {what}", probe, timeout_s=timeout_s, seen=env.summary)

        shown = shows("three ready members", lambda now: _ready(now) == 3, _SHOWN_WITHIN_S)
        assert _fact(shown, "Voters") == "3, 3 members ready"
        assert _fact(shown, "Failures tolerated") == "1 now, 1 after the next step"
        page.photograph("1-ready", section)

        failed = env.fail_disk(env.voter(leader=False, described=before))
        shown = shows("a repair under way", _repairing, _SHOWN_WITHIN_S)
        assert _row(shown, "members", str(failed.node_id)) is not None
        page.photograph("2-repair", section)

        env.wait_replaced(failed, 3)
        shown = shows(
            "the repair is over",
            lambda now: not _repairing(now) and _ready(now) == 3,
            MOVE_TIMEOUT_S,
        )
        assert any(row[1].startswith(f"{failed.node_id}-") for row in shown.rows["repairs"][1:])
        page.photograph("3-replaced", section)

        led = _fact(shown, "Leader")
        leader = env.voter(leader=True)
        pod = quorum.pod_of(leader.id, leader.uuid)
        env.faults.freeze(pod)
        try:
            shows(
                "another leader",
                lambda now: _fact(now, "Leader") not in (led, "not known"),
                _SHOWN_WITHIN_S,
            )
            page.photograph("4-new-leader", section)
        finally:
            env.faults.thaw(pod)
        env.faults.kill_9(pod)
        shows("three ready members again", lambda now: _ready(now) == 3, MOVE_TIMEOUT_S)
        page.photograph("5-ready-again", section)
    env.prove_nothing_lost()


def _row(shown: Tables, kind: str, first: str) -> list[str] | None:
    return next((row for row in shown.rows.get(kind, []) if row and row[0] == first), None)


def _fact(shown: Tables, name: str) -> str:
    row = _row(shown, "facts", name)
    return "" if row is None else row[1]


def _ready(shown: Tables) -> int:
    return sum(row[3] == "ready" for row in shown.rows.get("members", [])[1:])


def _repairing(shown: Tables) -> bool:
    return any(row[3] == "under way" for row in shown.rows.get("repairs", [])[1:])
