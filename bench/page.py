"""What every part of the page is made of: figures for people, Markdown tables, pictures that diff well."""

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "metadataquorum"
from matplotlib.figure import Figure  # noqa: E402


def number(value: float | None, digits: int = 1) -> str:
    """A figure for people."""
    if value is None:
        return "–"
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.{digits}f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def save(figure: Figure, path: Path) -> None:
    """The same bytes for the same figures."""
    figure.savefig(path, metadata={"Date": None})
    # Trailing blanks would be changed by every editor that opens the file.
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n")


def section_of(page: str, heading: str) -> str:
    """A section of the page from its heading to the next one of that rank; empty if it has none."""
    _, begin, rest = f"\n{page}".partition(f"\n## {heading}\n")
    if not begin:
        return ""
    body, _, _ = rest.partition("\n## ")
    return f"## {heading}\n{body}".rstrip() + "\n"


def replace_section(page: str, heading: str, text: str) -> str:
    """The page with another text in place of a section; a section that it lacks comes last."""
    known = section_of(page, heading)
    if not known:
        return f"{page.rstrip()}\n\n{text.rstrip()}\n"
    return page.replace(known.rstrip(), text.rstrip())
