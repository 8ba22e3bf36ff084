"""Shared by all sections of the page: number formats, Markdown tables, and pictures whose diffs are small."""

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "metadataquorum"
from matplotlib.figure import Figure  # noqa: E402


def number(value: float | None, digits: int = 1) -> str:
    """A number formatted for readers."""
    if value is None:
        return "–"
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.{digits}f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


Target = tuple[str, float | None, float, bool]
"""Name of the target, measured value (None: not measured), limit, and whether the limit is a maximum or a minimum."""


def targets_table(targets: list[Target]) -> str:
    """Table of the targets and the measured values."""
    rows = [
        [text, number(value, 2), _verdict(value, limit, at_most)]
        for text, value, limit, at_most in targets
    ]
    return table(["target", "measured", ""], rows)


def _verdict(value: float | None, limit: float, at_most: bool) -> str:
    if value is None:
        return "not measured"
    return "reached" if (value <= limit if at_most else value >= limit) else "**missed**"


def save(figure: Figure, path: Path) -> None:
    """Save a picture; the same figures give the same bytes."""
    figure.savefig(path, metadata={"Date": None})
    # Editors remove trailing blanks and would change the file.
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n")


def section_of(page: str, heading: str) -> str:
    """A section of the page, from its heading to the next one of that level; empty if there is none."""
    _, begin, rest = f"\n{page}".partition(f"\n## {heading}\n")
    if not begin:
        return ""
    body, _, _ = rest.partition("\n## ")
    return f"## {heading}\n{body}".rstrip() + "\n"


def replace_section(page: str, heading: str, text: str) -> str:
    """The page with a replaced section; a new section is appended."""
    known = section_of(page, heading)
    if not known:
        return f"{page.rstrip()}\n\n{text.rstrip()}\n"
    return page.replace(known.rstrip(), text.rstrip())
