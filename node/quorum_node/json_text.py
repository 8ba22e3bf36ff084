"""Reads JSON from untrusted or possibly damaged sources: files, annotations, termination messages of pods. Pure.

Refuses what `json.loads` accepts but later code can't handle: nesting beyond the depth of Python's stack, unpaired surrogates, which UTF-8
can't encode, and numbers that are not finite.
"""

import json
import math
from collections.abc import Callable
from typing import Any

MOST_DEPTH = 100
"""Maximum depth of nesting. Documents of this project have less than a tenth of it."""

Pairs = list[tuple[str, Any]]


def _finite(text: str) -> float:
    """Raises ValueError unless the number is finite. NaN and Infinity are not valid JSON, but 1e999 is."""
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
    """The document; bytes are UTF-8. Raises ValueError if it is not valid JSON, or can't be encoded again.

    `fraction` parses numbers that are not integers, `with_pairs` creates objects. Both may raise ValueError.
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
