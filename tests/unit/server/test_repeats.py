"""Log lines that return: written more and more rarely, and not without a limit."""

from quorum_node.server.observing.repeats import Repeats, is_written


def test_first_second_fourth_and_eighth_time_are_written() -> None:
    assert [times for times in range(1, 20) if is_written(times)] == [1, 2, 4, 8, 16]


def test_each_event_has_its_own_count_and_an_hour_later_it_begins_again() -> None:
    now_s = 0.0
    repeats = Repeats(lambda: now_s)
    assert [repeats.is_written("a") for _ in range(5)] == [True, True, False, True, False]
    assert [repeats.is_written("b") for _ in range(3)] == [True, True, False]
    now_s = 3600.0
    assert repeats.is_written("a")


def test_events_that_are_always_different_are_limited() -> None:
    now_s = 0.0
    repeats = Repeats(lambda: now_s)
    assert sum(repeats.is_written(number) for number in range(500)) == 100
    assert repeats.is_written(0), "a known event is still counted"
    now_s = 3600.0
    assert repeats.is_written(499)
