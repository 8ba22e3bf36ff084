"""Random names, rules and subjects, mainly unusual ones that a certificate authority would not issue.

Owns the generators; the same seed gives the same samples. Must not know who reads them.
"""

from random import Random

ATTRIBUTES = (
    "2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11",
    "0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1", "2.5.4.4",
    "2.5.4.12", "2.5.4.5", "1.3.6.1.4.1.99999.1", "2.999.3",
)  # fmt: skip
TEXT_TAGS, OTHER_TAGS = (12, 12, 19, 20, 22, 27), (1, 2, 4, 23, 26, 28, 30)
CHARACTERS = (*' \r\n,=+<>#;"\\\0aZ0é日|/-\x7f', "\U0001f600", "\x85")
HALVES = (0xED, 0xA0, 0x80, 0xBF, 0xE0, 0xF0, 0x9F, 0xF4, 0x90, 0x41, 0xC0, 0xC3, 0xF8, 0xEF)
"""Bytes that are not valid UTF-8."""

ATOMS = (
    "a", "b", ",", "=", "CN=", ".", "[a-c]", "[^,]", "[,=]", r"\.", r"\w", r"\W", r"\d", r"\s", r"\S", r"\p{Upper}",
    r"\P{Lower}", r"\p{L}", "[a-cx\\d-]", "é", r"\x61", r"\u00e9", "^", "$", r"\Q.a\E", "(?i)", "(?i:A)", "[^\\W]",
)  # fmt: skip
REPETITIONS = (*[""] * 9, "*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}?")
SUBJECT_PARTS = ("a", "b", "A", "c", ",", "=", "CN=", "x", ".", " ", "é", "1", "_", "日")
REPLACEMENTS = ("$1", "$1-$2", "x", "", "$0", "$9", "$12", "\\$1", "${n}", "$1@$10$2", "y$3z")


def element(tag: int, content: bytes) -> bytes:
    """Tag, length, content."""
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(digits))) + digits + content


def identifier(text: str) -> bytes:
    """An object identifier."""
    first, second, *rest = map(int, text.split("."))
    content = b""
    for number in (first * 40 + second, *rest):
        digits = [number & 127]
        while number := number >> 7:
            digits.insert(0, number & 127 | 128)
        content += bytes(digits)
    return element(6, content)


def odd_name(random: Random) -> bytes:
    """A Name of up to four RDNs, some of several attributes."""
    rdns = (
        b"".join(
            element(0x30, identifier(random.choice(ATTRIBUTES)) + _value(random))
            for _ in range(random.choice((1, 1, 1, 2, 3)))
        )
        for _ in range(random.randrange(5))
    )
    return element(0x30, b"".join(element(0x31, rdn) for rdn in rdns))


def _value(random: Random) -> bytes:
    if random.random() < 0.25:
        return element(random.choice(OTHER_TAGS), random.randbytes(random.randrange(1, 6)))
    text = "".join(random.choice(CHARACTERS) for _ in range(random.randrange(9))).encode()
    if random.random() < 0.2:
        text = bytes(random.choice(HALVES) for _ in range(6))
    return element(random.choice(TEXT_TAGS), text)


def rule(random: Random) -> str:
    """A mapping rule, mostly a valid one."""
    body = _pattern(random, 2)
    if random.random() < 0.5:
        body = f"^{body}$"
    case = random.choice(("", "", "L", "U"))
    return f"RULE:{body.replace('/', '')}/{random.choice(REPLACEMENTS)}/{case}"


def _pattern(random: Random, depth: int) -> str:
    parts = []
    for _ in range(random.randrange(1, 4)):
        if depth and random.random() < 0.5:
            opening = random.choice(("(", "(", "(", "(?:", "(?<n>"))
            inner = "|".join(_pattern(random, depth - 1) for _ in range(random.choice((1, 1, 2))))
            atom = f"{opening}{inner})"
        else:
            atom = random.choice(ATOMS)
        parts.append(atom if atom == "(?i)" else atom + random.choice(REPETITIONS))
    return "".join(parts)


def subject(random: Random) -> str:
    """A text that rules may match."""
    return "".join(random.choice(SUBJECT_PARTS) for _ in range(random.randrange(9)))
