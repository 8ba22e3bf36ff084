"""Which connection gives way: the idlest, never a voter's; and bounds on what an unfinished request holds."""

from dataclasses import dataclass, field
from weakref import ref

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.server.listener.connection_book import MAX_PER_VOTER, ConnectionBook


@dataclass(eq=False)
class Client:
    """A connection that notes why it was closed."""

    address: str = "10.0.0.1"
    standing: int = 0
    active_at: float = 0.0
    unfinished_since: float | None = None
    unfinished_bytes: int = 0
    closed: list[str] = field(default_factory=list)

    def drop(self, why: str) -> None:
        self.closed.append(why)


class Env:
    """A book with a clock that the test advances."""

    def __init__(self, **limits: object) -> None:
        self.now = 0.0
        self.counted: list[str] = []
        made = ConnectionLimits(**limits)  # type: ignore[arg-type]
        self.book = ConnectionBook(made, lambda: self.now, self.counted.append)

    def open(self, address: str = "10.0.0.1", voter: int | None = None) -> Client:
        self.now += 1
        client = Client(address)
        self.book.opened(client)
        if voter is not None:
            assert self.book.belongs_to_voter(client, voter)
        return client


def test_connection_limit_closes_the_longest_idle_connection_and_not_the_oldest() -> None:
    env = Env(max_connections=16)
    first, second, *_ = [env.open(f"10.0.0.{n}") for n in range(16)]
    first.active_at = 100.0
    newest = env.open("10.0.1.1")
    assert second.closed == ["max.connections"]
    assert not first.closed
    assert not newest.closed
    assert len(env.book) == 16
    assert env.counted == ["max.connections"]


def test_flood_of_silent_connections_displaces_no_active_connection() -> None:
    env = Env(max_connections=16)
    requested = [env.open(f"10.0.0.{n}") for n in range(10)]
    shown = env.open("10.0.0.99")
    shown.standing = 2
    for client in requested:
        client.standing = 1
    for number in range(500):
        env.open(f"10.0.1.{number}")
    assert not any(each.closed for each in (*requested, shown))
    for number in range(500):
        env.open(f"10.0.2.{number}").standing = 1
    assert all(each.closed for each in requested)
    assert not shown.closed


def test_flood_from_one_address_displaces_only_its_own_connections() -> None:
    env = Env(max_connections=100, max_per_address=5)
    others = [env.open(f"10.0.1.{n}") for n in range(20)]
    flood = [env.open("10.9.9.9") for _ in range(1000)]
    assert not any(each.closed for each in others)
    assert sum(not each.closed for each in flood) == 5
    assert len(env.book) == 25


def test_limit_can_be_set_per_address() -> None:
    env = Env(max_per_address=2, per_address={"10.0.0.7": 4})
    seven = [env.open("10.0.0.7") for _ in range(6)]
    eight = [env.open("10.0.0.8") for _ in range(6)]
    assert sum(not each.closed for each in seven) == 4
    assert sum(not each.closed for each in eight) == 2


def test_flood_never_closes_a_voter_connection() -> None:
    env = Env(max_connections=16, max_per_address=16)
    voters = [env.open("10.0.0.1", voter=n) for n in (1, 2, 3)]
    for _ in range(500):
        env.open("10.0.0.1")
    assert not any(each.closed for each in voters)
    # One that comes during the flood is let in as well, and is kept once it has spoken.
    late = env.open("10.0.0.1", voter=2)
    for _ in range(500):
        env.open("10.0.0.1")
    assert not late.closed


def test_repeated_claims_of_one_voter_displace_only_its_own_connections() -> None:
    env = Env(max_connections=1000, max_per_address=1000)
    for _ in range(10 * MAX_PER_VOTER):
        env.open(voter=1)
    assert sum(env.book.is_voters(each) for each in env.book) == MAX_PER_VOTER


def test_voter_claims_protect_at_most_half_of_the_connections() -> None:
    env = Env(max_connections=16, max_per_address=100)
    clients = [env.open() for _ in range(16)]
    protected = [env.book.belongs_to_voter(each, n) for n, each in enumerate(clients)]
    assert sum(protected) == 8


def test_unfinished_requests_share_one_memory_limit() -> None:
    env = Env(queued_bytes=10 << 20)
    clients = [env.open() for _ in range(12)]
    for client in clients:
        env.book.has_unfinished(client, 1 << 20)
    assert [bool(each.closed) for each in clients] == [True, True] + [False] * 10
    assert env.book.unfinished_bytes == 10 << 20
    env.book.has_unfinished(clients[-1], 0)
    assert env.book.unfinished_bytes == 9 << 20
    for client in clients[:-1]:
        env.book.lost(client)
    assert env.book.unfinished_bytes == 0


def test_small_request_is_not_closed_for_large_ones() -> None:
    env = Env(queued_bytes=10 << 20)
    small = env.open(voter=1)
    env.book.has_unfinished(small, 2000)
    large = [env.open() for _ in range(20)]
    for client in large:
        env.book.has_unfinished(client, 8 << 20)
    assert not small.closed
    assert env.book.unfinished_bytes <= 10 << 20


def test_idle_and_unfinished_connections_time_out() -> None:
    env = Env(max_idle_ms=60_000, receive_timeout_ms=5000)
    idle, slow, voter = env.open(), env.open(), env.open(voter=1)
    env.now = 30.0
    slow.unfinished_since = 20.0
    slow.active_at = 29.9  # a byte now and then
    env.book.sweep()
    assert slow.closed == ["quorum.request.receive.timeout.ms"]
    assert not idle.closed
    env.now = 100.0
    env.book.sweep()
    assert idle.closed == ["connections.max.idle.ms"]
    assert not voter.closed
    voter.unfinished_since = 90.0
    env.book.sweep()
    assert voter.closed == ["quorum.request.receive.timeout.ms"]
    assert len(env.book) == 0


def known(env: Env, principal: str, address: str = "10.0.0.1") -> Client:
    client = env.open(address)
    client.active_at = env.now
    env.book.identified(client, principal)
    return client


def test_connections_per_principal_are_limited_for_all_addresses() -> None:
    env = Env(principal_connections=3)
    others = [known(env, "User:b", f"10.0.1.{n}") for n in range(3)]
    first, *rest = [known(env, "User:a", f"10.0.0.{n}") for n in range(4)]
    assert first.closed == ["quorum.principal.max.connections"]
    assert env.counted == ["quorum.principal.max.connections"]
    env.book.lost(rest[0])
    known(env, "User:a")
    assert not any(each.closed for each in (*others, *rest))


def test_voter_connections_do_not_count_for_their_principal() -> None:
    env = Env(principal_connections=2)
    voters = [known(env, "User:member") for _ in range(2)]
    for each in voters:
        assert env.book.belongs_to_voter(each, 1)
    others = [known(env, "User:member") for _ in range(2)]
    assert not any(each.closed for each in (*voters, *others))
    known(env, "User:member")
    assert [bool(each.closed) for each in (*voters, *others)] == [False, False, True, False]


def test_unfinished_requests_per_principal_are_limited() -> None:
    """Those of others stay, though they began earlier."""
    env = Env(principal_queued_bytes=200_000)
    other = known(env, "User:b")
    env.book.has_unfinished(other, 150_000)
    early = env.open()
    env.book.has_unfinished(early, 90_000)
    env.book.identified(early, "User:a")
    small, late = (known(env, "User:a") for _ in range(2))
    env.book.has_unfinished(small, 1000)
    env.book.has_unfinished(late, 109_000)
    assert not any(each.closed for each in (other, early, small, late))
    env.book.has_unfinished(small, 1001)
    assert early.closed == ["quorum.principal.queued.max.request.bytes"]
    assert not any(each.closed for each in (other, small, late))
    env.book.has_unfinished(late, 0)
    env.book.has_unfinished(small, 199_000)
    assert not small.closed, "what was answered counts no more"


def test_connection_of_a_client_that_logs_in_counts_for_its_user_only() -> None:
    """Before the login it counted for the certificate of its handshake."""
    env = Env(principal_connections=2, principal_queued_bytes=200_000)
    first = known(env, "User:certificate")
    env.book.has_unfinished(first, 150_000)
    env.book.identified(first, "User:a")
    others = [known(env, "User:certificate") for _ in range(2)]
    env.book.has_unfinished(others[0], 150_000)
    assert not any(each.closed for each in (first, *others))
    env.book.has_unfinished(first, 200_001)
    assert first.closed == ["quorum.principal.queued.max.request.bytes"]
    kept = ref(first)
    del first
    assert kept() is None, "nothing is kept of a closed connection"
