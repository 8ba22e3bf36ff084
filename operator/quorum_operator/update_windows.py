"""Maintenance windows: whether one is open, and when the next one opens. Pure.

The schedule is that of cron(5): five fields of numbers, lists, ranges and steps, and names of months and week days.
If both day-of-month and day-of-week are restricted, either one matches. Local times skipped by a clock change are
used one hour later; of repeated ones the first counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quorum_operator.update_crd import UpdateWindowSpec

_LOOK_AHEAD_DAYS = 8 * 366
"""Search range: 29 February may be eight years away."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEK_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of one cron expression; days of the week count from Sunday, 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    week_days: frozenset[int]
    any_day: bool
    any_week_day: bool

    def has(self, day: date) -> bool:
        """Whether it contains a time on this day."""
        if day.month not in self.months:
            return False
        by_day, by_week = day.day in self.days, (day.isoweekday() % 7) in self.week_days
        if self.any_day or self.any_week_day:
            return by_day and by_week
        return by_day or by_week


@dataclass(frozen=True, slots=True)
class Window:
    """A parsed window."""

    schedule: Schedule
    duration_s: float
    zone: ZoneInfo

    def is_open(self, now: float) -> bool:
        """Whether the window is open at `now`, in seconds since 1970."""
        first = datetime.fromtimestamp(now - self.duration_s, self.zone).date()
        last = datetime.fromtimestamp(now, self.zone).date()
        starts = self._starts(first, (last - first).days + 1)
        return any(start <= now < start + self.duration_s for start in starts)

    def next_start(self, now: float) -> float | None:
        """The first start after `now`, in seconds since 1970; None if there is none."""
        today = datetime.fromtimestamp(now, self.zone).date()
        return next((s for s in self._starts(today, _LOOK_AHEAD_DAYS) if s > now), None)

    def _starts(self, first: date, days: int) -> Iterator[float]:
        for at in range(days):
            day = first + timedelta(days=at)
            if not self.schedule.has(day):
                continue
            for hour in self.schedule.hours:
                for minute in self.schedule.minutes:
                    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
                    yield local.timestamp()


def window(spec: UpdateWindowSpec) -> Window:
    """Parse a window. Raises ValueError with a message for the user."""
    try:
        zone = ZoneInfo(spec.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"unknown time zone {spec.time_zone!r}; write a name such as Europe/Berlin"
        ) from None
    return Window(schedule(spec.start), spec.duration_minutes * 60.0, zone)


def schedule(text: str) -> Schedule:
    """Parse a cron expression. Raises ValueError."""
    fields = text.split()
    if len(fields) != 5:
        raise ValueError(
            f"{text!r} is not a cron expression of five fields (minute, hour, day of month, month, day of week), such as"
            " '0 2 * * sat'"
        )
    minutes = _values(fields[0], 0, 59)
    hours = _values(fields[1], 0, 23)
    week_days = {each % 7 for each in _values(fields[4], 0, 7, _WEEK_DAYS)}
    return Schedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(_values(fields[2], 1, 31)),
        months=frozenset(_values(fields[3], 1, 12, _MONTHS, 1)),
        week_days=frozenset(week_days),
        any_day=fields[2].startswith("*"),
        any_week_day=fields[4].startswith("*"),
    )


def hold(specs: Iterable[UpdateWindowSpec], now: float) -> str | None:
    """Why an update has to wait for these windows (at least one); None if one is open. Raises ValueError."""
    windows = [window(each) for each in specs]
    if any(each.is_open(now) for each in windows):
        return None
    starts = [start for each in windows if (start := each.next_start(now)) is not None]
    if not starts:
        return "outside of spec.update.windows, and none of them opens again"
    opens = datetime.fromtimestamp(min(starts), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"outside of spec.update.windows: the next one opens at {opens}"


def _values(
    field: str, least: int, most: int, names: tuple[str, ...] = (), base: int = 0
) -> set[int]:
    """The values of one field; `names[0]` stands for `base`."""

    def number(text: str) -> int:
        if text.lower() in names:
            return names.index(text.lower()) + base
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"{field!r} is not a number or name within {least} to {most}")
        return int(text)

    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and int(step) > 0):
            raise ValueError(f"{field!r} has a step that is not a positive number")
        if span == "*":
            first, last = least, most
        else:
            begin, dash, end = span.partition("-")
            first = number(begin)
            last = number(end) if dash else (most if slash else first)
        if first > last:
            raise ValueError(f"{field!r} has a range that ends before it begins")
        found |= set(range(first, last + 1, int(step) if slash else 1))
    return found
