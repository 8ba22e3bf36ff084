"""The error codes in an answer, each with the item that it belongs to, for comparisons with a stock controller's answers.

Owns the traversal of an answer. The tests choose which answers are compared.
"""

from dataclasses import fields
from typing import Any

from quorum_node.schema.schema import Message

_NAMING = (
    "name",
    "topic",
    "user",
    "resource_type",
    "resource_name",
    "partition_index",
    "partition_id",
)


def codes(message: Message) -> list[tuple[str, int]]:
    """Every error code with its item, in any order."""
    found: list[tuple[str, int]] = []

    def look(part: Any, about: str) -> None:
        if isinstance(part, tuple):
            for each in part:
                look(each, about)
        elif isinstance(part, Message):
            names = {field.name: getattr(part, field.name) for field in fields(part)}
            known = [str(names[key]) for key in _NAMING if names.get(key) is not None]
            about = "/".join([about, *known])
            if "error_code" in names:
                found.append((about, int(names["error_code"])))
            for value in names.values():
                look(value, about)

    look(message, "")
    return sorted(found)
