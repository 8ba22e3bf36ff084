r"""Input of the pattern parser. PURE.

Owns the position, error messages with the position, and Java's quotation `\Q…\E`, which is
processed first.
"""

MAX_PATTERN_CHARS = 4096


class UnsupportedPattern(ValueError):
    """A pattern that is invalid in Java, or can't be matched in linear time.

    The message states position and reason.
    """


class PatternSource:
    """A pattern, read from left to right."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise UnsupportedPattern(f"a pattern has at most {MAX_PATTERN_CHARS} characters")
        self.pattern = pattern
        self._text = _without_quotation(pattern)
        self._position = 0

    @property
    def at_end(self) -> bool:
        """Whether the end is reached."""
        return self._position >= len(self._text)

    def peek(self) -> str:
        """The next character; empty at the end."""
        return self._text[self._position : self._position + 1]

    def next(self) -> str:
        """Read one character. Raises UnsupportedPattern at the end."""
        char = self.peek()
        if not char:
            raise self.wrong("the pattern ends too early")
        self._position += 1
        return char

    def take(self, text: str) -> bool:
        """Consume this text if it comes next."""
        found = self._text.startswith(text, self._position)
        if found:
            self._position += len(text)
        return found

    def take_while(self, characters: str, most: int) -> str:
        """Consume up to so many of these characters."""
        start = self._position
        while self._position - start < most and self.peek() and self.peek() in characters:
            self._position += 1
        return self._text[start : self._position]

    def wrong(self, why: str) -> UnsupportedPattern:
        """The error for the last consumed text."""
        return UnsupportedPattern(f"{why}, near {self._text[: self._position][-20:]!r}")


def _without_quotation(pattern: str) -> str:
    """The pattern with quotations replaced by backslashes."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("\\Q", position):
            end = pattern.find("\\E", position + 2)
            quoted = pattern[position + 2 :] if end < 0 else pattern[position + 2 : end]
            parts += (
                f"\\{char}" if char.isascii() and not char.isalnum() else char for char in quoted
            )
            position = len(pattern) if end < 0 else end + 2
        else:
            length = 2 if pattern[position] == "\\" else 1
            parts.append(pattern[position : position + length])
            position += length
    return "".join(parts)
