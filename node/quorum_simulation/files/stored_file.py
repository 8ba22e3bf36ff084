"""The bytes of one file: as processes see them, and as they are on the disk.

Owns the page cache of a file, its syncs, and its content after a power failure. Must not know names, nor the purpose of a file.

`content` is what a process reads. Its first `clean_bytes` count as written back, the rest is dirty. The disk
has the same bytes, unless a truncation was not synced yet or a sync failed: then its content is kept separately.
"""

from collections.abc import Callable
from random import Random

SECTOR_BYTES = 512
Torn = Callable[[bytearray, int], bytes | bytearray]
"""Function that returns the content after a power failure of a file with only appends, given its number of synced bytes."""


class StoredFile:
    """A file. Cheap without faults: one buffer, and the number of synced bytes."""

    __slots__ = (
        "_cut_in_sync",
        "_older",
        "_sync_limit",
        "_was_cut",
        "clean_bytes",
        "content",
        "modified_ms",
    )

    def __init__(self, content: bytes = b"") -> None:
        """Create a synced file."""
        self.content = bytearray(content)
        self.clean_bytes = len(content)
        self.modified_ms = 0
        """Time of the last change, in milliseconds since 1970; set by the file system."""
        self._older: bytes | None = None
        """Content on the disk, if it differs from the clean part of `content`."""
        self._sync_limit: int | None = None
        self._cut_in_sync = False
        self._was_cut = False
        """Whether it was truncated since the last sync; otherwise the content on the disk keeps its size."""

    def on_disk(self) -> bytes:
        """Minimum content after any power failure."""
        return bytes(self.content[: self.clean_bytes]) if self._older is None else self._older

    def safe_bytes(self) -> int:
        """Number of bytes that survive any power failure."""
        if self._older is None:
            return self.clean_bytes
        return _common_prefix(self._older, self.content[: self.clean_bytes])

    # -- what a process does

    def write(self, data: bytes | memoryview, position: int) -> None:
        """Write to the page cache; a gap is filled with zeros."""
        size = len(self.content)
        if position == size or not data:
            self.content += data
            return
        if position > size:
            self.content.extend(bytes(position - size))
        self._dirty_from(position)
        self.content[position : position + len(data)] = data

    def cut(self, size: int) -> None:
        """Truncate, or fill up with zeros."""
        if size >= len(self.content):
            self.content.extend(bytes(size - len(self.content)))
            return
        self._dirty_from(size)
        self._was_cut = True
        del self.content[size:]
        if self._sync_limit is not None:
            self._cut_in_sync = True

    def begin_sync(self) -> None:
        """Begin a sync: later writes are not covered by the next `sync`."""
        self._sync_limit, self._cut_in_sync = len(self.content), False

    def abandon_sync(self) -> None:
        """The process has ended: the next sync covers everything again."""
        self._sync_limit, self._cut_in_sync = None, False

    def sync(self) -> None:
        """Complete a sync: data that was dirty when it began is on the disk."""
        limit = len(self.content) if self._sync_limit is None else self._sync_limit
        cut, self._sync_limit, self._cut_in_sync = self._cut_in_sync, None, False
        older = self._older
        if older is not None:
            disk = older[: self.clean_bytes].ljust(self.clean_bytes, b"\0")
            disk += self.content[self.clean_bytes : limit]
            if cut:
                disk += older[limit:]  # the sync began before the truncation
            self._older = None if disk == self.content[:limit] else disk
        self.clean_bytes = limit
        self._was_cut = cut

    def fail_sync(self, random: Random, *, shuffled: bool, torn: Torn) -> None:
        """Fail a sync: a part of the data is on the disk, and all of it counts as written back."""
        self._sync_limit = None
        nothing = random.random() < 0.5
        arrived = self.on_disk()
        if not nothing:
            arrived = self.after_power_loss(random, shuffled=shuffled, torn=torn)
        self.clean_bytes = len(self.content)
        self._older = None if arrived == self.content else arrived
        self._was_cut = False

    def drop_clean_pages(self) -> None:
        """Drop clean pages, so that they are read from the disk again."""
        if self._older is not None:
            clean = self._older[: self.clean_bytes].ljust(self.clean_bytes, b"\0")
            self.content[: self.clean_bytes] = clean

    # -- what happens to the disk

    def after_power_loss(self, random: Random, *, shuffled: bool, torn: Torn) -> bytes:
        """Content of the disk if the power fails now. `shuffled`: sectors arrive in any order."""
        content, clean, older = self.content, self.clean_bytes, self._older
        if older is None and clean == len(content):
            return bytes(content)
        if older is not None and random.random() < 0.5:
            return older  # neither the truncation nor later writes reached the disk
        kept = content[:clean] if older is None else older[:clean].ljust(clean, b"\0")
        if older is None and not shuffled:
            return bytes(torn(content, clean))
        if shuffled:
            arrived = bytes(kept) + _shuffled(content, older or b"", clean, random)
        else:
            over = b"" if older is None or self._was_cut else older
            arrived = bytes(kept) + torn_tail(content, over, clean, random)
        if older is not None and not self._was_cut:
            # overwritten in place: the file does not become shorter
            arrived += older[len(arrived) :]
        return arrived

    def lose_power(self, random: Random, *, shuffled: bool, torn: Torn) -> None:
        """A power failure: the remaining content is on the disk."""
        self.replace(self.after_power_loss(random, shuffled=shuffled, torn=torn))

    def flip(self, position: int, bit: int) -> None:
        """Flip a bit on the disk and in the page cache."""
        if self._older is not None and position < len(self._older):
            older = bytearray(self._older)
            older[position] ^= 1 << bit
            self._older = bytes(older)
        self.content[position] ^= 1 << bit

    def replace(self, content: bytes) -> None:
        """Replace the content on the disk."""
        self.content = bytearray(content)
        self.clean_bytes, self._older, self._sync_limit = len(content), None, None
        self._was_cut = False

    def _dirty_from(self, position: int) -> None:
        if position < self.clean_bytes:
            if self._older is None:
                self._older = bytes(self.content[: self.clean_bytes])
            self.clean_bytes = position
        if self._sync_limit is not None and position < self._sync_limit:
            self._sync_limit = position


def torn_tail(content: bytearray, over: bytes, start: int, random: Random) -> bytes:
    """Return a prefix of the unsynced data, perhaps followed by zeros for missing sectors.

    `over`: the former content, which remains where sectors are missing.
    """
    size = len(content)
    stop = random.randint(start, size) if random.random() < 0.7 else start
    if stop < size and random.random() < 0.3 and stop % SECTOR_BYTES == 0:
        return (bytes(content[start:stop]) + over[stop:size]).ljust(size - start, b"\0")
    return bytes(content[start:stop])


def _shuffled(content: bytearray, older: bytes, start: int, random: Random) -> bytes:
    """Return the data with random unsynced sectors missing; a missing one has the former content, or zeros."""
    size = len(content) if random.random() < 0.7 else random.randint(start, len(content))
    arrived = bytearray(older[start:size].ljust(size - start, b"\0"))
    position = start
    while position < size:
        stop = min(size, (position // SECTOR_BYTES + 1) * SECTOR_BYTES)
        if random.random() < 0.5:
            arrived[position - start : stop - start] = content[position:stop]
        position = stop
    return bytes(arrived)


def _common_prefix(left: bytes, right: bytes | bytearray) -> int:
    size = min(len(left), len(right))
    if left[:size] == right[:size]:
        return size
    return next(index for index in range(size) if left[index] != right[index])
