"""Generates the reference of all keys: a table for each section, between marks in
docs/reference/configuration.md.

Owns the format of the tables. The text between them is written by hand.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorum_node.configuration.key import Key, Owner, Required, Scope
from quorum_node.configuration.keys.table import SECTIONS

_BLOCK = re.compile(
    r"(<!-- keys of the section: (?P<section>[^>]*?) -->\n).*?(<!-- end of keys -->\n)", re.DOTALL
)


def tables() -> Mapping[str, str]:
    """Section → its table."""
    return {title: _table(keys) for title, keys in SECTIONS.items()}


def written_into(document: str) -> str:
    """The document with up-to-date tables. Raises KeyError for an unknown section."""
    made = tables()
    return _BLOCK.sub(lambda found: found[1] + made[found["section"]] + found[3], document)


def sections_in(document: str) -> list[str]:
    """Sections with a mark in the document."""
    return [found["section"] for found in _BLOCK.finditer(document)]


def _table(keys: tuple[Key[Any], ...]) -> str:
    lines = ["| key | value | default | meaning | set by |", "|---|---|---|---|---|"]
    return "\n".join((*lines, *map(_row, keys))) + "\n"


def _row(key: Key[Any]) -> str:
    owner = "operator" if key.owner is Owner.OPERATOR else ""
    name = f"`{key.name}`" + (" ¹" if key.scope is Scope.LISTENER else "")
    return f"| {name} | {key.kind.describe()} | {_default(key)} | {key.doc} | {owner} |"


def _default(key: Key[Any]) -> str:
    plain = _value(key.default) if key.shown is None else key.shown
    others = (f"{name} port: {_value(each)}" for name, each in key.listener_defaults.items())
    return "; ".join((plain, *others))


def _value(value: object) -> str:
    match value:
        case None:
            return ""
        case Required():
            return "must be set"
        case bool():
            return f"`{str(value).lower()}`"
        case int():
            return str(value)
        case _:
            return f"`{value}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(written_into(path.read_text()))
