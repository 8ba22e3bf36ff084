"""Which handshake begins next: rates of all addresses and of each, and their turns. Times are in seconds and given by the tests."""

from quorum_node.server.listener.waiting_handshakes import (
    ADDRESS_SHARE,
    BURST_SECONDS,
    WaitingHandshakes,
)

RATE = 100


def begun(waiting: WaitingHandshakes[int], start: float, end: float) -> list[tuple[str, int]]:
    """Those that begin in this time, as a loop with exact timers begins them."""
    found: list[tuple[str, int]] = []
    now = start
    while now <= end:
        while (one := waiting.begin(now)) is not None:
            found.append(one)
        pause = waiting.pause_seconds(now)
        if pause is None:
            break
        assert pause > 0, "one could have begun"
        now += pause + 1e-9
    return found


def flood(hosts: int, each: int) -> WaitingHandshakes[int]:
    made = WaitingHandshakes[int](RATE, 0.0)
    for number in range(each):
        for host in range(hosts):
            made.add(f"10.0.0.{host}", number)
    return made


def test_one_address_has_a_part_of_the_rate() -> None:
    seconds = 4
    count = len(begun(flood(1, 1000), 0, seconds))
    of_one = RATE * ADDRESS_SHARE
    assert abs(count - of_one * (seconds + BURST_SECONDS)) <= 1


def test_many_addresses_share_the_whole_rate_in_turns() -> None:
    seconds = 4
    found = begun(flood(8, 1000), 0, seconds)
    assert abs(len(found) - RATE * (seconds + BURST_SECONDS)) <= 1
    hosts = [host for host, _ in found]
    counts = {host: hosts.count(host) for host in set(hosts)}
    assert len(counts) == 8
    assert max(counts.values()) - min(counts.values()) <= 1
    for host in counts:
        numbers = [number for each, number in found if each == host]
        assert numbers == list(range(len(numbers))), "in the order of their arrival"


def test_another_address_does_not_wait_for_a_flood() -> None:
    waiting = flood(1, 1000)
    begun(waiting, 0, 0)
    waiting.add("10.0.0.9", 7)
    assert waiting.begin(0.0) == ("10.0.0.9", 7)


def test_address_with_unused_rate_has_a_burst_again() -> None:
    waiting = flood(1, 10)
    first = begun(waiting, 0, 0)
    begun(waiting, 0, 10)
    for number in range(10):
        waiting.add("10.0.0.0", number)
    assert len(begun(waiting, 20, 20)) == len(first) == RATE * ADDRESS_SHARE * BURST_SECONDS


def test_nothing_waits_when_all_have_begun() -> None:
    waiting = flood(1, 1)
    assert waiting.begin(0.0) is not None
    assert waiting.begin(0.0) is None
    assert waiting.pause_seconds(0.0) is None
    assert len(waiting) == 0


def test_low_rate_lets_each_address_begin_one() -> None:
    waiting = WaitingHandshakes[int](1, 0.0)
    waiting.add("10.0.0.1", 1)
    assert waiting.begin(0.0) == ("10.0.0.1", 1)


def test_oldest_of_an_address_is_dropped() -> None:
    waiting = flood(2, 2)
    assert waiting.drop_oldest("10.0.0.1") == 0
    assert waiting.drop_oldest("10.0.0.1") == 1
    assert waiting.counts() == {"10.0.0.0": 2}
