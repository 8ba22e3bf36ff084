"""The length of a duration that is written in Java's form of ISO 8601, such as P1DT2H30M or PT1.5S. PURE.

Source: the documentation of `java.time.Duration.parse` of Java 17.
"""

import re

_LONGEST_SECONDS = (1 << 63) - 1
_NUMBER = "[+-]?[0-9]{1,40}"
_DURATION = re.compile(
    rf"(?P<sign>[+-]?)P(?=[T0-9+-])(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?=[0-9+-])(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?"
    rf"(?:(?P<seconds>{_NUMBER})(?:[.,](?P<fraction>[0-9]{{0,9}}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def duration_ns(text: str) -> int | None:
    """The length in nanoseconds; None for a text that is not a duration, or exceeds Java's range."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    seconds = 0
    for name, unit in _UNITS.items():
        part = int(found[name] or "0") * unit
        if abs(part) > _LONGEST_SECONDS:
            return None
        seconds += part
    fraction = int((found["fraction"] or "").ljust(9, "0"))
    if (found["seconds"] or "").startswith("-"):
        fraction = -fraction
    if abs(seconds) > _LONGEST_SECONDS:
        return None
    length = seconds * 1_000_000_000 + fraction
    return -length if found["sign"] == "-" else length
