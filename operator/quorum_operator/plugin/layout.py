"""Lines for a terminal of a given width: tables whose last column is wrapped, and paragraphs. Pure."""

import textwrap
from collections.abc import Sequence

WIDTH = 80
GAP = 2
_LEAST_LAST = 24
"""Minimum width of the last column of a table."""


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH, indent: int = 0
) -> list[str]:
    """Columns as wide as their widest cell; the last one is wrapped into the remaining width."""
    cells = [list(headers), *(list(row) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(headers) - 1)]
    before = indent + sum(each + GAP for each in widths)
    room = max(width - before, _LEAST_LAST)
    lines = []
    for row in cells:
        head = " " * indent + "".join(
            cell.ljust(each + GAP) for cell, each in zip(row[:-1], widths, strict=True)
        )
        last = textwrap.wrap(row[-1], room, break_on_hyphens=False) or [""]
        lines.append((head + last[0]).rstrip())
        lines += [" " * before + more for more in last[1:]]
    return lines


def fields(pairs: Sequence[tuple[str, str]], width: int = WIDTH) -> list[str]:
    """A label and a text on each line; texts are wrapped in their column."""
    label = max((len(name) for name, _ in pairs), default=0) + GAP
    lines = []
    for name, text in pairs:
        wrapped = textwrap.wrap(text, max(width - label, _LEAST_LAST), break_on_hyphens=False)
        lines.append((name.ljust(label) + (wrapped or ["-"])[0]).rstrip())
        lines += [" " * label + more for more in wrapped[1:]]
    return lines


def paragraph(text: str, width: int = WIDTH, indent: int = 0) -> list[str]:
    """Wrap and indent a text."""
    blank = " " * indent
    return textwrap.wrap(
        text, width, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False
    )


def printable(text: str) -> str:
    """Replace control characters of terminals. Messages contain text of pods and of any client that may create events."""
    return "".join(
        each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text
    )


def age(seconds: float) -> str:
    """How long ago, as kubectl writes it: 42s, 7m, 3h, 12d."""
    whole = max(int(seconds), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
