"""Several operators with one Lease: one is active, another takes over, and the former holder makes no more changes."""

import signal
import time

import pytest

from support.envtest.environment import Env
from support.envtest.http_proxy import Call, Hold, Moment, RecordingProxy
from support.envtest.kill_points import is_about_lease
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import MOVE_TIMEOUT_S
from support.kind_env.waiting import wait_for

pytestmark = pytest.mark.envtest

TAKEOVER_S = 15.0
_EAGER = {"debounceSeconds": 1, "maxReplacementsPerHour": 60}


def acts(proxy: RecordingProxy) -> list[Call]:
    """Everything that changed something, but the lease."""
    return [call for call in proxy.calls if not is_about_lease(call)]


def two_operators(env: Env) -> tuple[OperatorProcess, RecordingProxy, RecordingProxy]:
    """The first one holds the lease, the other one waits."""
    first, its_proxy = env.add_operator(lease=True)
    first.start()
    wait_for(
        "the first one holds the lease", lambda: env.lease_holder() == "operator-0", timeout_s=30
    )
    second, other_proxy = env.add_operator(lease=True)
    second.start()
    wait_for("the second one looks", lambda: leases_read(other_proxy) >= 2, timeout_s=30)
    return first, its_proxy, other_proxy


def leases_read(proxy: RecordingProxy) -> int:
    return sum(1 for call, _ in list(proxy.to_api) if call.method == "GET" and is_about_lease(call))


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.requirement("OP-03")
def test_standby_operator_acquires_the_lease_when_the_holder_is_killed(env: Env) -> None:
    first, _, other_proxy = two_operators(env)
    quorum = env.create(3, repair=_EAGER)
    assert acts(other_proxy) == [], "two operators were active"
    first.kill()
    killed_at = time.monotonic()
    quorum.scale(5)
    wait_for("the other one acts", lambda: acts(other_proxy), timeout_s=60)
    assert time.monotonic() - killed_at <= TAKEOVER_S
    assert env.lease_holder() == "operator-1"
    quorum.wait_ready(5)
    assert len(quorum.steps_since()) == 4


@pytest.mark.timeout(180)
@pytest.mark.requirement("OP-03")
def test_holder_that_was_frozen_makes_no_changes_after_its_lease_expired(env: Env) -> None:
    first, proxy, other_proxy = two_operators(env)
    quorum = env.create(1)
    wanted = next_create(env, proxy)
    quorum.scale(3)
    env.cluster.wait_inside("it is at work", wanted.reached.wait, timeout_s=30)
    first.send(signal.SIGSTOP)
    env.cluster.run(wanted.release)  # its request was executed, and it has no response
    wait_for("the other one took over", lambda: acts(other_proxy), timeout_s=60)
    before, looked = len(acts(proxy)), leases_read(proxy)
    first.send(signal.SIGCONT)
    wait_for("it looks at the lease again", lambda: leases_read(proxy) >= looked + 2, timeout_s=30)
    quorum.wait_ready(3)
    assert len(acts(proxy)) == before, [call.path for call in acts(proxy)[before:]]
    assert first.alive()
    assert len(quorum.steps_since()) == 2


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.requirement("OP-03")
def test_holder_that_cannot_renew_its_lease_stops_and_another_operator_takes_over(env: Env) -> None:
    _, proxy, other_proxy = two_operators(env)
    quorum = env.create(1)
    holds = [env.cluster.run(lambda: proxy.hold(is_about_lease, Moment.BEFORE)) for _ in range(50)]
    wait_for("a renewal is stuck", lambda: any(each.call for each in holds), timeout_s=10)
    stuck_at = time.monotonic()
    wait_for(
        "the other one holds the lease",
        lambda: env.lease_holder() == "operator-1",
        timeout_s=30,
    )
    assert time.monotonic() - stuck_at <= TAKEOVER_S
    before = len(acts(proxy))
    quorum.scale(3)
    quorum.wait_ready(3, timeout_s=MOVE_TIMEOUT_S)
    assert len(acts(proxy)) == before
    assert acts(other_proxy)


@pytest.mark.timeout(120)
def test_gracefully_stopped_operator_releases_its_lease_immediately(env: Env) -> None:
    first, _, other_proxy = two_operators(env)
    assert first.stop() == 0
    looked = leases_read(other_proxy)
    wait_for("handed over", lambda: env.lease_holder() == "operator-1", timeout_s=30)
    # It looks every two seconds: an expired lease is taken at the third look or later. One look may
    # have been under way.
    assert leases_read(other_proxy) - looked <= 2, "taken over only when the lease had expired"
    env.create(1)
    assert acts(other_proxy)


def next_create(env: Env, proxy: RecordingProxy) -> Hold:
    def wanted(call: Call) -> bool:
        return call.method == "POST" and call.path.endswith("/statefulsets")

    return env.cluster.run(lambda: proxy.hold(wanted, Moment.AFTER))
