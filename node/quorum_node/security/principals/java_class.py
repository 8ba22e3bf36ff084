"""Sets of characters in Java's patterns: classes, escapes and single characters, as classes for RE2. PURE.

Owns the content of each set. Sets are written as ranges of code points, so the result does not depend on RE2's escapes.
Case is folded for ASCII letters only, as Java does by default.
"""

from dataclasses import dataclass

from quorum_node.security.principals.pattern_source import PatternSource

_LAST = 0x10FFFF
_HEX = "0123456789abcdefABCDEF"
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_Ranges = tuple[tuple[int, int], ...]

_DIGIT: _Ranges = ((48, 57),)
_UPPER: _Ranges = ((65, 90),)
_LOWER: _Ranges = ((97, 122),)
_SPACE: _Ranges = ((9, 13), (32, 32))
_WORD: _Ranges = (*_DIGIT, *_UPPER, (95, 95), *_LOWER)
_PREDEFINED = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX: dict[str, _Ranges] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ((0, 127),),
    "Alpha": (*_UPPER, *_LOWER),
    "Digit": _DIGIT,
    "Alnum": (*_DIGIT, *_UPPER, *_LOWER),
    "Punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "Graph": ((33, 126),),
    "Print": ((32, 126),),
    "Blank": ((9, 9), (32, 32)),
    "XDigit": (*_DIGIT, (65, 70), (97, 102)),
    "Space": _SPACE,
}
_UNICODE = frozenset({"L", "Lu", "Ll", "N", "Nd"})
_CASE_MATTERS = frozenset({"Lower", "Upper", "Lu", "Ll"})


@dataclass(frozen=True, slots=True)
class _Set:
    """A set of characters. `properties`: additional Unicode categories, in RE2's syntax."""

    ranges: _Ranges = ()
    properties: str = ""


def literal(char: str, *, fold_case: bool) -> str:
    """One character in RE2's syntax."""
    return _written(_Set(((ord(char), ord(char)),)), fold_case=fold_case)


def read_escape(source: PatternSource, *, fold_case: bool) -> str:
    """Parse an escape outside of a class, after the backslash. Raises UnsupportedPattern."""
    return _written(_escape(source, fold_case=fold_case), fold_case=fold_case)


def read_class(source: PatternSource, *, fold_case: bool) -> str:
    """Parse a class, after the opening bracket. Raises UnsupportedPattern."""
    negated = source.take("^")
    ranges: list[tuple[int, int]] = []
    properties: list[str] = []
    if source.peek() == "]":
        raise source.wrong("a closing bracket that begins a class has to be escaped")
    while not source.take("]"):
        first = _member(source, fold_case=fold_case)
        single = len(first.ranges) == 1 and first.ranges[0][0] == first.ranges[0][1]
        if single and source.peek() == "-":
            source.next()
            if source.peek() == "]":  # a hyphen at the end is a literal
                ranges += [*first.ranges, (45, 45)]
                continue
            last = _member(source, fold_case=fold_case)
            low, high = first.ranges[0][0], last.ranges[0][1] if last.ranges else -1
            if len(last.ranges) != 1 or last.ranges[0][0] != high or low > high:
                raise source.wrong(
                    "the range of a class has to go from a lower to a higher character"
                )
            ranges.append((low, high))
        else:
            ranges += first.ranges
            properties.append(first.properties)
    return _written(_Set(tuple(ranges), "".join(properties)), fold_case=fold_case, negated=negated)


def _member(source: PatternSource, *, fold_case: bool) -> _Set:
    char = source.next()
    if char == "[":
        raise source.wrong("a class within a class is not supported: name all characters in one")
    if char == "&" and source.peek() == "&":
        raise source.wrong("the intersection of classes (&&) is not supported")
    if char == "\\":
        return _escape(source, fold_case=fold_case)
    return _Set(((ord(char), ord(char)),))


def _escape(source: PatternSource, *, fold_case: bool) -> _Set:
    char = source.next()
    if char in _CONTROLS:
        return _one(_CONTROLS[char])
    if char in "xu":
        return _one(_code_point(source, char))
    if char.lower() in _PREDEFINED:
        ranges = _PREDEFINED[char.lower()]
        return _Set(ranges if char.islower() else _complement(ranges))
    if char in "pP":
        return _property(source, negated=char == "P", fold_case=fold_case)
    if char.isascii() and char.isdigit() and char != "0":
        raise source.wrong(f"a back reference (\\{char}) can't be matched in linear time")
    if char.isascii() and char.isalnum():
        raise source.wrong(f"\\{char} is not supported")
    return _one(ord(char))


def _code_point(source: PatternSource, kind: str) -> int:
    """`\\xhh`, `\\x{h…}` or `\\uhhhh`."""
    if kind == "x" and source.take("{"):
        digits = source.take_while(_HEX, 6)
        complete = bool(digits) and source.take("}")
    else:
        wanted = 2 if kind == "x" else 4
        digits = source.take_while(_HEX, wanted)
        complete = len(digits) == wanted
    number = int(digits, 16) if complete else _LAST + 1
    if number > _LAST or 0xD800 <= number <= 0xDFFF:
        raise source.wrong(f"\\{kind} is not followed by the number of a character")
    return number


def _property(source: PatternSource, *, negated: bool, fold_case: bool) -> _Set:
    name = source.next()
    if name == "{":
        name = ""
        while not source.take("}"):
            name += source.next()
    if fold_case and name in _CASE_MATTERS:
        raise source.wrong(
            f"\\p{{{name}}} where case does not count differs between versions of Java"
        )
    if name in _POSIX:
        return _Set(_complement(_POSIX[name]) if negated else _POSIX[name])
    if name in _UNICODE:
        return _Set((), f"\\{'P' if negated else 'p'}{{{name}}}")
    raise source.wrong(f"the property {name!r} is not supported")


def _one(number: int) -> _Set:
    return _Set(((number, number),))


def _complement(ranges: _Ranges) -> _Ranges:
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return (*found, (start, _LAST))


def _written(found: _Set, *, fold_case: bool, negated: bool = False) -> str:
    ranges = _folded(found.ranges) if fold_case else found.ranges
    inside = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)
    return f"[{'^' if negated else ''}{inside}{found.properties}]"


def _folded(ranges: _Ranges) -> _Ranges:
    """The set with both cases of each of its ASCII letters."""
    both = list(ranges)
    for (first, last), distance in (_UPPER[0], 32), (_LOWER[0], -32):
        for low, high in ranges:
            low, high = max(low, first), min(high, last)
            if low <= high:
                both.append((low + distance, high + distance))
    return tuple(both)
