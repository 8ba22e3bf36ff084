"""The timeline as one self-contained HTML page with SVG charts. PURE."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from quorum_pipeline.timeline.events import KINDS, Event, summary

_COLOURS = dict(
    zip(
        KINDS,
        (
            "#4269d0", "#3ca951", "#ff725c", "#a463f2", "#d62728", "#8c564b", "#9498a0", "#e377c2",
            "#b00020", "#efb118", "#6cc5b0", "#97bbf5",
        ),
        strict=True,
    )
)  # fmt: skip
_WIDTH, _LEFT, _LANE, _BAR = 1100, 300, 22, 12
_NAME_LETTERS = 24
"""Maximum length of a subject next to its lane: it has to fit between the name of its kind and the chart."""
_TICKS = 5
_DAY_MS = 86_400_000
_MAX_LANES = 60
_MAX_ROWS = 2_000
_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1120px;color:#1b1e23}
h1{font-size:1.4em} h2{font-size:1.1em;margin-top:2em}
table{border-collapse:collapse;width:100%} td{vertical-align:top} th,td{text-align:left;padding:.25em
.6em;border-bottom:1px solid #ddd}
td.n,th.n{text-align:right} svg text{font:12px system-ui,sans-serif;fill:#333} svg text.kind{font-weight:600}
td{white-space:nowrap;font-variant-numeric:tabular-nums} td.detail{white-space:normal;overflow-wrap:anywhere}
.dot{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
"""


def html_report(title: str, events: Sequence[Event], begin_ms: int, end_ms: int) -> Iterator[str]:
    """Yield the page in pieces; `begin_ms` to `end_ms` is the time span of the log."""
    yield f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
    yield f"<h1>{escape(title)}</h1><p>{_time(begin_ms)} to {_time(end_ms)}, {len(events):,} events.</p>"
    yield from _summary(events)
    yield "<h2>Events and durations</h2>"
    yield from _picture(events, begin_ms, end_ms)
    yield from _table(events)


def _summary(events: Sequence[Event]) -> Iterator[str]:
    yield "<table><tr><th>event<th class=n>how often<th class=n>median<th class=n>longest"
    for each in summary(events):
        dot = f'<span class=dot style="background:{_COLOURS[each.kind]}"></span>'
        median, longest = (
            figure(value, bound=each.bounds) for value in (each.median_ms, each.longest_ms)
        )
        yield f"<tr><td>{dot}{each.kind}<td class=n>{each.times:,}<td class=n>{median}<td class=n>{longest}"
    yield "</table>"


def _picture(events: Sequence[Event], begin_ms: int, end_ms: int) -> Iterator[str]:
    lanes = list(dict.fromkeys((each.kind, each.subject) for each in _for_lanes(events)))
    rows = {lane: number for number, lane in enumerate(lanes[:_MAX_LANES])}
    height = _LANE * len(rows) + 40
    scale = (_WIDTH - _LEFT - 20) / max(end_ms - begin_ms, 1)
    yield f'<svg viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" aria-label="events over time">'
    yield from _names(list(rows))
    yield from _times(begin_ms, end_ms, height)
    for each in events:
        at = rows.get((each.kind, each.subject))
        if at is not None:
            yield _bar(each, at, begin_ms, end_ms, scale)
    yield "</svg>"
    if len(lanes) > _MAX_LANES:
        yield f"<p>{len(lanes) - _MAX_LANES:,} more rows are in the table and in the Parquet file.</p>"


def _names(lanes: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the labels: each kind once, with a line above it, and the subject next to each lane."""
    before = None
    for row, (kind, subject) in enumerate(lanes):
        y = row * _LANE
        if kind != before:
            yield f'<line x1="0" y1="{y}" x2="{_WIDTH}" y2="{y}" stroke="#ddd"/>'
            yield f'<text x="0" y="{y + 14}" class="kind">{kind}</text>'
        before = kind
        name = subject
        if len(name) > _NAME_LETTERS:
            name = f"{name[: _NAME_LETTERS // 2]}…{name[1 - _NAME_LETTERS // 2 :]}"
        yield f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'


def _times(begin_ms: int, end_ms: int, height: int) -> Iterator[str]:
    for part in range(_TICKS + 1):
        x = _LEFT + part * (_WIDTH - _LEFT - 20) / _TICKS
        time_ms = begin_ms + part * (end_ms - begin_ms) // _TICKS
        yield f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - 30}" stroke="#e5e5e5"/>'
        text = _tick(time_ms, end_ms - begin_ms)
        anchor = "end" if part == _TICKS else "middle"
        yield f'<text x="{x:.1f}" y="{height - 12}" text-anchor="{anchor}">{text}</text>'


def _tick(time_ms: int, span_ms: int) -> str:
    """Return a time with the precision that distinguishes two ticks."""
    if span_ms >= 2 * _DAY_MS:
        return _time(time_ms)[:16]
    return _time(time_ms)[11:] if span_ms < 20_000 else _time(time_ms)[11:19]


def _for_lanes(events: Sequence[Event]) -> list[Event]:
    """Sort events by kind, then by begin."""
    order = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(events, key=lambda each: (order[each.kind], each.begin_offset))


def _bar(event: Event, row: int, begin_ms: int, end_ms: int, scale: float) -> str:
    # What a snapshot contains may have begun before the log, and clocks of leaders differ.
    first, last = (
        min(max(each, begin_ms), end_ms)
        for each in (event.begin_ms, end_ms if event.end_ms is None else event.end_ms)
    )
    x = _LEFT + (first - begin_ms) * scale
    width = max((last - first) * scale, 3)
    title = escape(
        f"{event.kind}: {event.subject} {event.detail}, {_time(event.begin_ms)}, {_took(event)}"
    )
    return (
        f'<rect x="{x:.1f}" y="{row * _LANE + 3}" width="{width:.1f}" height="{_BAR}" rx="2"'
        f' fill="{_COLOURS[event.kind]}"><title>{title}</title></rect>'
    )


def _table(events: Iterable[Event]) -> Iterator[str]:
    yield "<h2>All events</h2><table><tr><th>start<th>event<th>subject<th class=n>took<th>detail<th class=n>offset"
    for number, each in enumerate(events):
        if number == _MAX_ROWS:
            yield "<tr><td colspan=6>More events are in the Parquet file."
            break
        cells = f"<td>{each.kind}<td>{escape(each.subject)}<td class=n>{_took(each)}"
        yield (
            f"<tr><td>{_time(each.begin_ms)}{cells}<td class=detail>{escape(each.detail)}<td "
            f"class=n>{each.begin_offset}"
        )
    yield "</table>"


def _took(event: Event) -> str:
    if event.is_instant:
        return figure(event.at_most_ms, bound=True)
    return shown(event.duration_ms)


def figure(duration_ms: int | None, *, bound: bool = False) -> str:
    """Return a readable duration, or a dash if there is none; `bound`: it is an upper bound."""
    if duration_ms is None:
        return "–"
    return f"≤ {shown(duration_ms)}" if bound else shown(duration_ms)


def shown(duration_ms: int | None) -> str:
    """Return a readable duration."""
    if duration_ms is None:
        return "goes on"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.3f} s"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    return (
        f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {seconds} s"
    )


def _time(time_ms: int) -> str:
    """Return a time in UTC; one outside of the calendar's range as its number."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms after 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"
