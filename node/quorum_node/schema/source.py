"""Generated source: lines, indentation and the names that the lines refer to.

Owns text only; shared by `decoder.py` and `encoder.py`. Must not know messages.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from quorum_node.schema.schema import FieldSpec, Message

SHORT_ARRAY = 8
SHARED_ARRAYS = 16_384
"""Number of cached short arrays of numbers, and arrays of UUIDs: many partitions have the same replicas and directories."""


@dataclass(slots=True)
class Source:
    """A function under construction. It is compiled once per message and version, and called many times."""

    names: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    counter: int = 0
    limits_strings: bool = True
    """See `decoder`."""

    def add(self, *lines: str) -> None:
        """Appends lines at the current indentation."""
        self.lines += ("    " * self.depth + line for line in lines)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Indents lines that are added inside."""
        self.add(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, value: Any) -> str:
        """A name for a constant in the lines."""
        for known, existing in self.names.items():
            if existing is value:
                return known
        fresh = f"k{len(self.names)}"
        self.names[fresh] = value
        return fresh

    def variable(self) -> str:
        """A fresh local variable."""
        self.counter += 1
        return f"v{self.counter}"

    def function(self, name: str) -> Callable[..., Any]:
        """Compiles the lines and returns the function that they define."""
        scope = dict(self.names)
        exec(compile("\n".join(self.lines), f"<generated {name}>", "exec"), scope)
        made: Callable[..., Any] = scope[name]
        return made


def wire_fields(cls: type[Message]) -> list[tuple[str, FieldSpec]]:
    """The declared fields of a message, in the order of the wire."""
    return [(f.name, f.metadata["wire"]) for f in fields(cls) if "wire" in f.metadata]
