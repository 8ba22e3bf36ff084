"""Tables in Markdown."""

from collections.abc import Iterable, Sequence

GENERATED = "Generated from {source} by `make reference-docs`; a test compares both. Terms are in the [glossary](glossary.md)."


def head(title: str, source: str, *more: str) -> list[str]:
    """Title, where the page comes from, and what else stands above its tables."""
    lines = [f"# {title}", "", GENERATED.format(source=source), ""]
    return lines + [line for text in more for line in (text, "")]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, an empty one behind it."""
    lines = [_row(columns), "|" + "---|" * len(columns)]
    return [*lines, *map(_row, rows), ""]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(each) for each in cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page(lines: Iterable[str]) -> str:
    """The lines as a file."""
    return "\n".join(lines).rstrip("\n") + "\n"
