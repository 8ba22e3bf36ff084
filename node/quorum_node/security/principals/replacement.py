"""Java's replacement text, as used by Kafka's mapping rules. PURE.

Owns `$1`, `${name}`, the backslash, and Kafka's rule for groups that the pattern does not have
(`$9` stands for itself). Stock Kafka detects an invalid replacement when the first client connects;
here it is refused at start.
"""

import re
from collections.abc import Mapping

Part = str | int
"""Text, or the number of a group."""
_DIGITS = "0123456789"
_REFERENCE = re.compile(r"\$([0-9]+)")
_NAME = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")


class UnusableReplacement(ValueError):
    """A replacement that would fail at the first match."""


def parse_replacement(
    text: str, group_count: int, group_names: Mapping[str, int]
) -> tuple[Part, ...]:
    """Literal parts and group numbers. Raises UnusableReplacement."""
    text = _with_literal_references(text, group_count)
    parts: list[Part] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            if position == len(text):
                raise UnusableReplacement("it ends with a backslash")
            parts.append(text[position])
            position += 1
        elif char == "$":
            group, position = _group(text, position, group_count, group_names)
            parts.append(group)
        else:
            parts.append(char)
    return tuple(parts)


def _group(text: str, position: int, count: int, names: Mapping[str, int]) -> tuple[int, int]:
    """The group after a dollar sign, and the end of the reference."""
    named = _NAME.match(text, position)
    if named is not None:
        if named[1] not in names:
            raise UnusableReplacement(f"the pattern has no group {named[1]}")
        return names[named[1]], named.end()
    digit = text[position : position + 1]
    if not digit or digit not in _DIGITS:
        raise UnusableReplacement(
            "a $ has to be followed by a number or {name}; write \\$ for a literal $"
        )
    group = int(digit)
    if group > count:
        raise UnusableReplacement(f"the pattern has no group {group}")
    position += 1
    # as many digits as form an existing group
    while position < len(text) and text[position] in _DIGITS:
        longer = group * 10 + int(text[position])
        if longer > count:
            break
        group, position = longer, position + 1
    return group, position


def _with_literal_references(text: str, group_count: int) -> str:
    """Escape each `$n` without a group n, if the pattern has groups at all.

    Positions refer to the original text, so the second such reference is missed, as in Kafka.
    """
    if group_count == 0:
        return text
    changed = text
    for reference in _REFERENCE.finditer(text):
        digits = reference[1]
        if digits.startswith("0"):
            continue
        number = int(digits[:18])
        while number > group_count and number >= 10:
            number //= 10
        if number > group_count:
            at = reference.start()
            changed = f"{changed[:at]}\\{changed[at:]}"
    return changed
