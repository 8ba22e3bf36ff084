"""Maintenance windows: when one is open, by schedule, duration and time zone, clock changes included."""

from datetime import UTC, datetime

import pytest

from quorum_operator import update_windows
from quorum_operator.update_crd import UpdateWindowSpec


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def window_spec(start: str, minutes: int = 60, zone: str = "UTC") -> UpdateWindowSpec:
    return UpdateWindowSpec(start=start, duration_minutes=minutes, time_zone=zone)


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize(
    ("start", "minutes", "zone", "opens"),
    [
        ("0 2 * * sat", 120, "UTC", "2026-11-28T02:00"),
        ("0 2 * * 6", 120, "UTC", "2026-11-28T02:00"),
        ("0 2 * * SAT", 120, "Europe/Berlin", "2026-11-28T01:00"),
        ("30 22 * * 1-5", 60, "America/New_York", "2026-11-26T03:30"),
        ("*/15 4-6/2 * * *", 5, "UTC", "2026-11-26T04:00"),
        ("0 0 1 jan *", 1440, "UTC", "2027-01-01T00:00"),
        ("0 12 13 * fri", 10, "UTC", "2026-11-27T12:00"),  # cron: the 13th, or a Friday
        ("5 0 29 2 *", 10, "UTC", "2028-02-29T00:05"),
        ("0 3 * * 7", 10, "UTC", "2026-11-29T03:00"),
    ],
)
def test_window_opens_by_schedule_and_closes_after_its_duration(
    start: str, minutes: int, zone: str, opens: str
) -> None:
    now, window = at("2026-11-25T23:00"), update_windows.window(window_spec(start, minutes, zone))
    found = window.next_start(now)
    assert found == at(opens)
    assert not window.is_open(found - 1)
    assert window.is_open(found)
    assert window.is_open(found + minutes * 60 - 1)
    if minutes < 60:
        assert not window.is_open(found + minutes * 60)


@pytest.mark.requirement("OP-10")
def test_window_over_midnight_is_open_on_the_next_day() -> None:
    window = update_windows.window(window_spec("0 23 * * fri", 180))
    assert window.is_open(at("2026-11-28T01:59"))
    assert not window.is_open(at("2026-11-28T02:00"))


@pytest.mark.requirement("OP-10")
def test_start_skipped_by_a_clock_change_is_an_hour_later_and_a_repeated_one_counts_once() -> None:
    spring = update_windows.window(window_spec("30 2 29 3 *", 30, "Europe/Berlin"))
    assert spring.next_start(at("2026-03-28T12:00")) == at("2026-03-29T01:30"), "3:30 summer time"
    autumn = update_windows.window(window_spec("30 2 25 10 *", 30, "Europe/Berlin"))
    first = autumn.next_start(at("2026-10-24T12:00"))
    assert first == at("2026-10-25T00:30"), "2:30 summer time"
    assert not autumn.is_open(at("2026-10-25T01:30"))


@pytest.mark.requirement("OP-10")
def test_one_open_window_suffices_and_the_next_one_is_named() -> None:
    windows = [window_spec("0 2 * * sat"), window_spec("0 4 * * sun")]
    assert update_windows.hold(windows, at("2026-11-28T02:30")) is None
    assert update_windows.hold(windows, at("2026-11-29T04:30")) is None
    reported = update_windows.hold(windows, at("2026-11-28T03:00"))
    assert reported is not None
    assert "2026-11-29T04:00:00Z" in reported
    never = update_windows.hold([window_spec("0 0 30 2 *")], at("2026-11-28T03:00"))
    assert never is not None
    assert "none of them opens" in never


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize(
    "text",
    [
        *("61 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "* * * * mond"),
        *("5-1 * * * *", "*/0 * * * *", "*/x * * * *", "* * * *", "a * * * *", "-1 * * * *"),
        ", * * * *",
    ],
)
def test_invalid_schedule_is_rejected_with_a_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"cron|within|step|range"):
        update_windows.schedule(text)


@pytest.mark.requirement("OP-10")
def test_unknown_time_zone_is_rejected_with_a_message() -> None:
    for zone in ("Nowhere/Else", "../etc/passwd", "/etc/passwd"):
        with pytest.raises(ValueError, match="time zone"):
            update_windows.window(window_spec("* * * * *", 1, zone))
