"""A small text file that ends with the CRC-32C of everything before it, and says at its beginning that it does.

Owns how such a file is told from one that never had a checksum: the beginning and the end each say it, so a damage
that takes one of them away leaves the other, and a file with one of them alone is refused. Files of stock Kafka,
and of this project before it wrote checksums, have neither. Knows nothing of what the text means.
"""

from dataclasses import dataclass

from crc32c import crc32c


@dataclass(frozen=True, slots=True)
class CheckedText:
    """The frame of one kind of file; `beginning` and `mark` must not occur in any that has no checksum."""

    beginning: bytes
    """What every file with a checksum begins with."""
    mark: bytes
    """What stands before the checksum, which is 8 lower-case hexadecimal digits."""
    end: bytes
    """What stands behind it, at the end of the file."""

    def seal(self, body: bytes) -> bytes:
        """The file: `body`, which begins with `beginning`, and the checksum of it."""
        assert body.startswith(self.beginning), f"{body[:40]!r} does not begin as it has to"
        return body + self.mark + f"{crc32c(body):08x}".encode() + self.end

    def check(self, content: bytes) -> bool:
        """Whether there is a checksum, and it is right; False: there never was one.

        Raises ValueError when it is wrong, or gone from a file that had one.
        """
        body = content[: max(0, len(content) - len(self.mark) - 8 - len(self.end))]
        if body.startswith(self.beginning) and content == self.seal(body):
            return True
        if self.mark.strip() in content:
            raise ValueError("the checksum at its end does not fit what stands before it")
        if content.startswith(self.beginning):
            raise ValueError("the checksum at its end is gone")
        return False
