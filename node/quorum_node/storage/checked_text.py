"""Small text files with a CRC-32C at their end.

Owns how such a file is distinguished from one without a checksum. Both its beginning and its end
indicate the checksum, so if damage removes one of them, the file is refused. Files of stock Kafka,
and of versions of this project before checksums, have neither. Must not know the content.
"""

from dataclasses import dataclass

from crc32c import crc32c


@dataclass(frozen=True, slots=True)
class CheckedText:
    """The frame of one kind of file; `beginning` and `mark` must not occur in a file without a checksum."""

    beginning: bytes
    """Beginning of every file with a checksum."""
    mark: bytes
    """Text before the checksum, which is 8 lower-case hexadecimal digits."""
    end: bytes
    """Text after it, at the end of the file."""

    def seal(self, body: bytes) -> bytes:
        """The file: `body`, which starts with `beginning`, and its checksum."""
        assert body.startswith(self.beginning), f"{body[:40]!r} does not begin as it has to"
        return body + self.mark + f"{crc32c(body):08x}".encode() + self.end

    def check(self, content: bytes) -> bool:
        """Whether there is a valid checksum; False: the file never had one.

        Raises ValueError if it is wrong, or missing in a file that had one.
        """
        body = content[: max(0, len(content) - len(self.mark) - 8 - len(self.end))]
        if body.startswith(self.beginning) and content == self.seal(body):
            return True
        if self.mark.strip() in content:
            raise ValueError("the checksum at its end does not match the content")
        if content.startswith(self.beginning):
            raise ValueError("the checksum at its end is missing")
        return False
