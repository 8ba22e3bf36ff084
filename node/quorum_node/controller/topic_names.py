"""Validation of topic names. PURE.

Owns the rules for names. Must not know which topics exist.
Source: Kafka's documentation of topic names: letters, digits, '.', '_' and '-', at most 249 of
them. Names that differ in '.' and '_' only would share the names of their metrics.
"""

import re

MAX_LENGTH = 249
METADATA_TOPIC = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def name_fault(name: str) -> str | None:
    """Why a name is invalid; None if it is valid."""
    if not name:
        return "a topic's name can't be empty"
    if name in (".", ".."):
        return f"a topic can't have the name {name!r}"
    if len(name) > MAX_LENGTH:
        return (
            f"a topic's name has at most {MAX_LENGTH} characters, {name[:20]!r}... has {len(name)}"
        )
    if not _LEGAL.fullmatch(name):
        return f"{name!r}: a topic's name can only contain ASCII letters, digits, '.', '_' and '-'"
    return None
