"""Reads JSON that anybody may have written: annotations, and termination messages of pods. Pure.

Owns what `json.loads` accepts, but later code can't handle: nesting beyond the depth of Python's stack, and halves of
surrogate pairs, which no UTF-8 text contains.
"""

import json
from typing import Any

MOST_DEPTH = 100
"""Of nesting. No document of the operator or of a node has a tenth of it."""


def read_json(text: str) -> Any:
    """The document. Raises ValueError for what is no JSON or can't be written again."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [found]
    for _ in range(MOST_DEPTH):
        level = [one for each in level for one in _inner(each)]
    if level:
        raise ValueError("nested too deeply")
    if "\\u" in text:
        json.dumps(found, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return found


def _inner(document: Any) -> list[Any]:
    if isinstance(document, dict):
        return list(document.values())
    return document if isinstance(document, list) else []
