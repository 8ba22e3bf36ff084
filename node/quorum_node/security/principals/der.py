"""Reads DER (X.690), as far as the subject of a certificate needs it. PURE.

Owns tags and lengths. Names are read from the bytes: a parser that returns names as text loses the
string type of each value, and Java's text depends on it (`x500.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

SEQUENCE, SET, OBJECT_IDENTIFIER = 0x30, 0x31, 0x06
_CONTEXT_0 = 0xA0


class MalformedDer(ValueError):
    """The bytes are not the expected DER."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element with a tag of one byte, and its content.

    `encoded`: the whole element with tag and length.
    """

    tag: int
    content: bytes
    encoded: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Consecutive elements. Raises MalformedDer."""
    position = 0
    while position < len(data):
        found = _element(data, position)
        yield found
        position += len(found.encoded)


def only(data: bytes, tag: int) -> Element:
    """The only element of the bytes. Raises MalformedDer."""
    found = list(elements(data))
    if len(found) != 1 or found[0].tag != tag:
        raise MalformedDer(f"one element of tag {tag:#04x} was expected")
    return found[0]


def object_identifier(content: bytes) -> str:
    """The object identifier as dotted numbers. Raises MalformedDer."""
    numbers: list[int] = []
    number, complete = 0, True
    for byte in content:
        if complete and byte == 0x80:
            raise MalformedDer("an object identifier has a number with leading zeros")
        number = number << 7 | byte & 0x7F
        complete = not byte & 0x80
        if complete:
            numbers.append(number)
            number = 0
    if not numbers or not complete:
        raise MalformedDer("an object identifier is truncated")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def subject_of(certificate: bytes) -> bytes:
    """The subject's Name, encoded, of an X.509 certificate (RFC 5280, section 4.1). Raises MalformedDer."""
    outer = list(elements(only(certificate, SEQUENCE).content))
    if not outer or outer[0].tag != SEQUENCE:
        raise MalformedDer("not a certificate")
    fields = list(elements(outer[0].content))
    if fields and fields[0].tag == _CONTEXT_0:  # the version; absent in version 1
        del fields[0]
    if len(fields) < 5 or fields[4].tag != SEQUENCE:
        raise MalformedDer("a certificate without a subject")
    return fields[4].encoded


def _element(data: bytes, position: int) -> Element:
    header = data[position : position + 2]
    if len(header) < 2 or header[0] & 0x1F == 0x1F:
        raise MalformedDer("an element is truncated, or has a tag of several bytes")
    length, start = header[1], position + 2
    if length & 0x80:
        count = length & 0x7F
        digits = data[start : start + count]
        if not 1 <= count <= 4 or len(digits) < count:
            raise MalformedDer("a length is truncated, or has more than four bytes")
        length, start = int.from_bytes(digits, "big"), start + count
    end = start + length
    if end > len(data):
        raise MalformedDer("an element is longer than the one that contains it")
    return Element(header[0], data[start:end], data[position:end])
