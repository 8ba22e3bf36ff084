"""What connections of one principal share: requests, and time of the loop."""

import gc
from collections.abc import Callable
from time import perf_counter

from quorum_node.security.caller import ANONYMOUS, Caller
from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.server.listener.loop_work import LoopWork
from quorum_node.server.listener.principal_shares import BURST_SECONDS, PrincipalShares, Share


class Loop:
    """Keeps what is to be called."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.due.append((delay, callback))


class Connection:
    def __init__(self) -> None:
        self.woken = 0

    def may_read_again(self) -> None:
        self.woken += 1


def caller(name: str, role: Role | None = None) -> Caller:
    identity = None if role is None else CertificateIdentity("ns", "demo", role)
    return Caller(f"User:{name}", "10.0.0.1", "CONTROLLER", identity)


def busy(clock: Callable[[], float] = perf_counter) -> LoopWork:
    """Others have worked a great deal."""
    work = LoopWork(clock)
    work.add(1e6)
    return work


def test_all_connections_of_one_principal_share_one_entry_until_the_last_closes() -> None:
    shares = PrincipalShares(Loop(), 10, 25, busy())
    share = shares.of(caller("a"))
    share.received(7)
    assert shares.of(caller("a", Role.READER)) is share
    assert shares.of(caller("b")) is not share
    assert shares.of(ANONYMOUS) is not shares.of(ANONYMOUS)
    del share
    gc.collect()
    assert shares.of(caller("a")).requests == 0


def test_requests_over_the_limit_wait_until_half_are_answered() -> None:
    share = Share(Loop(), max_requests=4)
    one, other = Connection(), Connection()
    share.received(3)
    assert not share.is_used_up
    share.received(1)
    assert share.is_used_up
    share.wait(one)
    share.wait(other)
    share.answered(1)
    assert (one.woken, other.woken) == (0, 0)
    share.answered(1)
    assert (one.woken, other.woken) == (1, 1)
    share.answered(1)
    assert one.woken == 1, "it waits no more"


def test_time_share_is_limited_in_the_long_run() -> None:
    loop, now = Loop(), [100.0]
    work = busy(lambda: now[0])
    share = Share(loop, part=0.25, clock=lambda: now[0], work=work)
    connection = Connection()
    share.spent(BURST_SECONDS / 2)
    assert not share.is_used_up
    share.spent(BURST_SECONDS / 2 + 0.1)
    assert share.is_used_up
    share.wait(connection)
    share.wait(connection)
    ((delay, callback),) = loop.due
    assert abs(delay - 0.4) < 1e-9, "a tenth of a second of work at a quarter of the time"
    now[0] += delay + 1e-6
    callback()
    assert connection.woken == 1
    assert not share.is_used_up
    now[0] += 1000
    work.add(1.0)
    share.spent(10)
    assert share.is_used_up, "an hour of rest is not kept"


def test_members_and_administrators_have_no_time_limit() -> None:
    shares = PrincipalShares(Loop(), 10, 25, busy())
    for role in Role:
        share = shares.of(caller(role.value, role))
        share.spent(10)
        assert share.is_used_up is (role not in (Role.MEMBER, Role.ADMIN, Role.OPERATOR))


def test_single_principal_has_no_time_limit_until_others_send_requests() -> None:
    now = [100.0]
    work = LoopWork(lambda: now[0])
    mine = Share(Loop(), part=0.25, clock=lambda: now[0], work=work)
    other = Share(clock=lambda: now[0], work=work)

    def a_second(seconds_of_other: float) -> bool:
        """Ten pieces of mine, and of the other's work beside them. Whether mine had to wait after one."""
        waited = False
        for _ in range(10):
            now[0] += 0.1
            mine.spent(0.09)
            other.spent(seconds_of_other / 10)
            waited = waited or mine.is_used_up
        return waited

    assert not any(a_second(0.0) for _ in range(10)), "no other principal is active"
    assert not any(a_second(0.01) for _ in range(10)), "heartbeats of others"
    assert a_second(0.1), "others need the loop"
    now[0] += 5.0
    assert not a_second(0.0), "time used while no other principal waited is not charged later"


def test_connection_that_waited_for_time_is_read_although_most_requests_wait() -> None:
    """Half of the limit is for connections that wait because of too many requests."""
    now, loop = [0.0], Loop()
    work = busy(lambda: now[0])
    share, connection = Share(loop, 10, 0.25, lambda: now[0], work), Connection()
    share.received(6)
    share.spent(BURST_SECONDS + 1)
    assert share.is_used_up
    share.wait(connection)
    ((pause, callback),) = loop.due
    now[0] += pause + 0.001
    callback()
    assert connection.woken == 1
