"""Which names a topic may have. PURE.

Owns the rules for names. Must not know which topics there are, beyond what it is told.
Source: Kafka's documentation of topic names: letters, digits, '.', '_' and '-', at most 249 of them; names
that differ by '.' and '_' alone would share the names of their metrics.
"""

import re

MAX_LENGTH = 249
METADATA_TOPIC = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def name_fault(name: str) -> str | None:
    """What is wrong with a name; None if nothing is."""
    if not name:
        return "a topic's name can't be empty"
    if name in (".", ".."):
        return f"a topic can't be called {name!r}"
    if len(name) > MAX_LENGTH:
        return (
            f"a topic's name has at most {MAX_LENGTH} characters, {name[:20]!r}... has {len(name)}"
        )
    if not _LEGAL.fullmatch(name):
        return f"{name!r}: a topic's name is made of ASCII letters, digits, '.', '_' and '-'"
    return None
