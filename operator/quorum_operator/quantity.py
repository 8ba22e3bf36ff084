"""Kubernetes quantities: `1Gi`, `1024Mi` and `1073741824` are equal.

Owns parsing and a canonical form. The grammar is that of k8s.io/apimachinery `resource.Quantity`: a decimal number
with a binary suffix, a decimal suffix or an exponent. `kubernetes.utils.parse_quantity` is not used: it belongs to
the client, which pure code does not import, and accepts more than the API server (NaN, infinity, underscores, spaces,
an exponent with a suffix). A test compares both.
"""

import re
from fractions import Fraction
from functools import lru_cache

_BINARY = {f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)},
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
}
_MOST_CHARS = 100
"""Longer texts are no quantity here. They come from specs, and the operator serves the quorums of all users in one loop."""
_QUANTITY = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII
)

_WHOLE = re.compile("[0-9]{1,18}")


# Every plan compares the sizes of all claims, which have few different values.
@lru_cache(maxsize=256)
def value_of(text: str) -> Fraction | None:
    """The exact value; None for an invalid quantity."""
    found = _QUANTITY.fullmatch(text.strip()) if len(text) <= _MOST_CHARS else None
    if found is None:
        return None
    number, suffix, exponent = found.groups()
    if exponent is not None:
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * {**_BINARY, **_DECIMAL}[suffix or ""]


def whole_number(text: str | None) -> int | None:
    """The number in an annotation or label; None for any other text and for more than 18 digits."""
    found = _WHOLE.fullmatch(text or "")
    return None if found is None else int(found[0])


def canonical(quantity: str | int | float) -> str:
    """The canonical form as the API server writes it: with the largest suffix that gives a whole number. Any other text is unchanged."""
    text = str(quantity).strip()
    return _canonical(text) if len(text) <= _MOST_CHARS else text


# Each comparison of an object with the wanted one asks for the same few texts.
@lru_cache(maxsize=1024)
def _canonical(text: str) -> str:
    value = value_of(text)
    if value is None:
        return text
    suffixes = _BINARY if text.endswith("i") and value >= 1024 else _DECIMAL
    for suffix, unit in sorted(suffixes.items(), key=lambda each: -each[1]):
        if value and value % unit == 0:
            return f"{value / unit}{suffix}"
    return "0" if value == 0 else text
