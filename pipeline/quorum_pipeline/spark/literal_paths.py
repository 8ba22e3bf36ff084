"""Paths for Spark's readers of files, which take brackets, braces, asterisks and question marks for patterns of names. PURE.

Source: Hadoop's `FileSystem.globStatus`: a backslash removes the special meaning of the next character.
"""

import re

_SPECIAL = re.compile(r"([\[\]{}*?\\])")


def literal(path: str) -> str:
    """Return a path or URI as a pattern that only matches itself."""
    return _SPECIAL.sub(r"\\\1", path)
