"""Reads JSON that damage, another program or anybody may have written: files, annotations, termination messages of pods. Pure.

Owns what `json.loads` accepts, but later code can't handle: nesting beyond the depth of Python's stack, halves of surrogate pairs, which no
UTF-8 text contains, and numbers that are not finite.
"""

import json
import math
from collections.abc import Callable
from typing import Any

MOST_DEPTH = 100
"""Of nesting. No document of this project has a tenth of it."""

Pairs = list[tuple[str, Any]]


def _finite(text: str) -> float:
    """JSON has no name for what is not a number or infinite, but 1e999 is valid."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def read_json(
    text: str | bytes,
    *,
    fraction: Callable[[str], float] = _finite,
    with_pairs: Callable[[Pairs], Any] | None = None,
) -> Any:
    """The document; bytes are UTF-8. Raises ValueError for what is no JSON or can't be written again.

    `fraction` reads numbers that are not whole, `with_pairs` makes objects. Both may raise ValueError.
    """
    if isinstance(text, bytes):
        text = text.decode()
    try:
        found = json.loads(
            text, parse_float=fraction, parse_constant=fraction, object_pairs_hook=with_pairs
        )
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
