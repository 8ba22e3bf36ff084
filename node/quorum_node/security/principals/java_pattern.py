"""Translates Java's regular expressions to RE2, as far as they can be matched in linear time. PURE.

Kafka compiles mapping rules with `java.util.regex`, which backtracks. `^(.*a)+$` on a subject of
some hundred characters runs for years, and the subject is chosen by the client that requests the
certificate. So a pattern is parsed by Java's grammar and written for RE2, whose time is
proportional to pattern times text. Refused with an error are: what RE2 lacks (look-around, back
references, possessive and atomic groups), what RE2 would interpret differently (`[a-z&&[^b]]`), and
the repetition of a part that can be empty, `(a*)*`, as Java's result depends on its implementation.
Texts have no line terminators (`principal_rules.py` ensures that), so `.` is any character and `$`
is the end.
"""

from dataclasses import dataclass, field

from quorum_node.security.principals.java_class import literal, read_class, read_escape
from quorum_node.security.principals.pattern_source import PatternSource

MAX_REPETITIONS = 1000
"""RE2's own limit."""
MAX_DEPTH = 50
MAX_NAME = 100
_DIGITS = "0123456789"
_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + _DIGITS

_REFUSED_GROUPS = {
    "=": "look-ahead",
    "!": "look-ahead",
    "<=": "look-behind",
    "<!": "look-behind",
    ">": "an atomic group",
}


@dataclass(frozen=True, slots=True)
class TranslatedPattern:
    """`text`: for RE2."""

    text: str
    group_count: int
    group_names: dict[str, int]


@dataclass(slots=True)
class _Reading:
    """State of the parser."""

    source: PatternSource
    fold_case: bool = False
    depth: int = 0
    groups: int = 0
    names: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Part of the new pattern. `empty`: whether it can match the empty text."""

    text: str
    empty: bool
    repeatable: bool = True


def translate(pattern: str) -> TranslatedPattern:
    """The pattern for RE2. Raises UnsupportedPattern, which states the position."""
    reading = _Reading(PatternSource(pattern))
    piece = _alternatives(reading)
    if not reading.source.at_end:
        raise reading.source.wrong("a closing parenthesis without an opening one")
    return TranslatedPattern(piece.text, reading.groups, reading.names)


def _alternatives(reading: _Reading) -> _Piece:
    reading.depth += 1
    if reading.depth > MAX_DEPTH:
        raise reading.source.wrong(f"groups are nested more than {MAX_DEPTH} deep")
    fold_case = reading.fold_case
    branches = [_sequence(reading)]
    while reading.source.take("|"):
        branches.append(_sequence(reading))
    reading.fold_case = fold_case  # (?i) applies up to the end of its group
    reading.depth -= 1
    return _Piece("|".join(each.text for each in branches), any(each.empty for each in branches))


def _sequence(reading: _Reading) -> _Piece:
    source, texts, empty = reading.source, [], True
    while not source.at_end and source.peek() not in "|)":
        piece = _repeated(source, _atom(reading))
        texts.append(piece.text)
        empty = empty and piece.empty
    return _Piece("".join(texts), empty)


def _atom(reading: _Reading) -> _Piece:
    source = reading.source
    char = source.next()
    if char == "(":
        return _group(reading)
    if char == "[":
        return _Piece(read_class(source, fold_case=reading.fold_case), False)
    if char == ".":
        return _Piece("(?s:.)", False)
    if char in "^$":
        return _Piece(_ANCHORS[char], True)
    if char == "\\":
        if source.peek() and source.peek() in "AzZ":
            return _Piece(_ANCHORS[source.next()], True)
        return _Piece(read_escape(source, fold_case=reading.fold_case), False)
    if char in "*+?":
        raise source.wrong(f"{char!r} has nothing to repeat")
    if char == "{":
        raise source.wrong("an opening brace has to be escaped, or follow what it repeats")
    return _Piece(literal(char, fold_case=reading.fold_case), False)


_ANCHORS = {"^": r"(?:\A)", "A": r"(?:\A)", "$": r"(?:\z)", "Z": r"(?:\z)", "z": r"(?:\z)"}


def _group(reading: _Reading) -> _Piece:
    source = reading.source
    fold_case = reading.fold_case
    if not source.take("?"):
        return _capturing(reading)
    for mark, name in _REFUSED_GROUPS.items():
        if source.take(mark):
            raise source.wrong(f"{name} (?{mark} can't be matched in linear time")
    if source.take("<"):
        name = source.take_while(_NAME, MAX_NAME)
        if not name or not name[0].isalpha() or not source.take(">"):
            raise source.wrong("the name of a group is letters and digits, a letter first")
        if name in reading.names:
            raise source.wrong(f"two groups are called {name}")
        reading.names[name] = reading.groups + 1
        return _capturing(reading)
    if not _flags(reading):
        return _Piece("", True, repeatable=False)
    inner = _closed(reading)
    reading.fold_case = fold_case
    return _Piece(f"(?:{inner.text})", inner.empty)


def _capturing(reading: _Reading) -> _Piece:
    reading.groups += 1
    inner = _closed(reading)
    return _Piece(f"({inner.text})", inner.empty)


def _closed(reading: _Reading) -> _Piece:
    inner = _alternatives(reading)
    if not reading.source.take(")"):
        raise reading.source.wrong("a group is not closed")
    return inner


def _flags(reading: _Reading) -> bool:
    """Whether a group follows (`(?i:`).

    Otherwise the flags apply to the rest of the enclosing group (`(?i)`).
    """
    source, on = reading.source, True
    while True:
        char = source.next()
        if char == ":":
            return True
        if char == ")":
            return False
        if char == "-" and on:
            on = False
        elif char == "i":
            reading.fold_case = on
        elif char not in "sm":  # these two have no effect in a text of one line
            raise source.wrong(f"the flag {char!r} is not supported")


def _repeated(source: PatternSource, piece: _Piece) -> _Piece:
    least, most, written = _quantifier(source)
    if not written:
        return piece
    if not piece.repeatable:
        raise source.wrong("a flag can't be repeated")
    if source.take("+"):
        raise source.wrong("possessive repetition can't be matched in linear time")
    if piece.empty and most != 1:
        raise source.wrong(
            "what can be empty can't be repeated: leave out the inner or outer repetition"
        )
    lazy = "?" if source.take("?") else ""
    return _Piece(f"{piece.text}{written}{lazy}", piece.empty or least == 0)


def _quantifier(source: PatternSource) -> tuple[int, int | None, str]:
    """Minimum, maximum (None: no limit), and the text; empty without a quantifier."""
    for char, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
        if source.take(char):
            return least, most, char
    if not source.take("{"):
        return 1, 1, ""
    least_text = source.take_while(_DIGITS, 5)
    most_text = least_text
    if source.take(","):
        most_text = source.take_while(_DIGITS, 5)
    if not least_text or not source.take("}"):
        raise source.wrong("a repetition is {n}, {n,} or {n,m}")
    least, most = int(least_text), int(most_text) if most_text else None
    if max(least, most or 0) > MAX_REPETITIONS:
        raise source.wrong(f"a repetition is of {MAX_REPETITIONS} times at most")
    if most is not None and most < least:
        raise source.wrong("a repetition goes from the smaller to the larger number")
    return least, most, f"{{{least}}}" if most == least else f"{{{least},{most_text}}}"
