r"""Whether a text is a regular expression of Java. PURE.

Owns the syntax as far as it is checked: groups, classes, repetitions and escapes. Java has more rules:
names of properties such as `\p{Alpha}`, references to groups, the length of a look-behind. A pattern that
violates only these is accepted, so no pattern that Java accepts is refused, except one whose groups are
nested deeper than `MAX_DEPTH`. The time is linear in the length of the text.
Source: the documentation of `java.util.regex.Pattern` of Java 17.
"""

import re

MAX_DEPTH = 100
"""Java reads groups and classes by recursion, and a deep pattern exhausts its stack."""
_MAX_REPETITIONS = (1 << 31) - 1

_FLAGS = "[idmsucU]*(?:-[idmsucU]*)?"
_QUOTED = r"(?P<quoted>\\Q(?:.*?\\E|.*))"
_IN_BOTH = (
    r"[^0-9A-Za-z]|0[0-7]|x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]+\}|u[0-9A-Fa-f]{4}"
    r"|[pP](?:[^{]|\{[^}]+\})|N\{[^}]*\}|c.|[DHSVWadefhnrstvw]"
)
_TOKEN = re.compile(
    rf"{_QUOTED}"
    rf"|(?P<atom>[^\\\[()|*+?{{]|\\(?:{_IN_BOTH}|[1-9ABGRXZbz]|k<[A-Za-z][0-9A-Za-z]*>))"
    rf"|(?P<flags>\(\?{_FLAGS}\))"
    rf"|(?P<open>\((?:\?(?:[=!>]|<[=!]|<[A-Za-z][0-9A-Za-z]*>|{_FLAGS}:))?(?!\?))"
    r"|(?P<close>\))"
    r"|(?P<or>\|)"
    r"|(?P<repeat>(?:[*+?]|\{(?P<least>[0-9]{1,10})(?P<comma>,(?P<most>[0-9]{1,10})?)?\})[?+]?)"
    r"|(?P<class>\[\^?)",
    re.DOTALL,
)
_MEMBER = re.compile(
    rf"{_QUOTED}"
    r"|(?P<low>[0-9A-Za-z])-(?P<high>[0-9A-Za-z])"
    rf"|(?P<one>[^\\\[\]]|\\(?:{_IN_BOTH}))"
    r"|(?P<open>\[\^?)"
    r"|(?P<close>\])",
    re.DOTALL,
)
_UNCHECKED = re.compile(r"\(\?[A-Za-z]*x|\\c\\")
"""What changes how the rest is read: the flag for blanks and comments, and a backslash as a control character."""


def java_pattern_fault(pattern: str) -> str | None:
    """Why Java would refuse the pattern; None if nothing is found."""
    if _UNCHECKED.search(pattern):
        return None
    position = depth = 0
    repeatable = False
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            return f"not a regular expression at character {position + 1}"
        position = token.end()
        kind = token.lastgroup
        if kind == "class":
            end = _end_of_class(pattern, position)
            if isinstance(end, str):
                return end
            position = end
        depth += (kind == "open") - (kind == "close")
        if not 0 <= depth <= MAX_DEPTH:
            return "a closing parenthesis has no opening one" if depth < 0 else _TOO_DEEP
        if kind == "repeat" and not _is_repetition(token, repeatable):
            return f"an invalid repetition before character {position + 1}"
        # An empty quotation is nothing: what precedes it may still be repeated.
        if token[0] != r"\Q\E":
            repeatable = kind in ("atom", "quoted", "close", "class")
    return "a parenthesis is not closed" if depth else None


_TOO_DEEP = f"groups or classes are nested more than {MAX_DEPTH} deep"


def _is_repetition(token: re.Match[str], repeatable: bool) -> bool:
    """Whether its numbers are of Java's type int, the smaller one first.

    Only a repetition without numbers needs something to repeat.
    """
    if token["least"] is None:
        return repeatable
    least = int(token["least"])
    most = int(token["most"] or (_MAX_REPETITIONS if token["comma"] else least))
    return least <= most <= _MAX_REPETITIONS


def _end_of_class(pattern: str, position: int) -> int | str:
    """Position after the class whose content begins here, or what is wrong with it."""
    filled = [False]
    """For each class that is open, the innermost last: whether it has a member."""
    while filled:
        token = _MEMBER.match(pattern, position)
        if token is None:
            return "a class of characters is not closed, or has an invalid escape"
        position = token.end()
        if token["low"] is not None and token["low"] > token["high"]:
            return f"{token[0]} is not a range of characters"
        if token["close"] and filled[-1]:
            filled.pop()
        elif token["open"]:
            filled[-1] = True
            filled.append(False)
        else:
            # A closing bracket that begins a class is a member of it.
            filled[-1] = True
        if len(filled) > MAX_DEPTH:
            return _TOO_DEEP
    return position
