"""The names in one directory: which there are, and which would be after a loss of power.

Owns names and their durability. Must not know what is in the files. Names that were not synced become durable in the
order in which they changed, as with any journal: a loss of power keeps the first few of the changes.
"""

from dataclasses import dataclass, field
from random import Random

from quorum_simulation.files.stored_file import StoredFile

Change = tuple[str, StoredFile | None, str]
"""(name, its file now or None when it is gone, another name that is gone with it or "")."""


@dataclass(slots=True)
class Folder:
    """`files`: by name, as processes see them."""

    files: dict[str, StoredFile] = field(default_factory=dict)
    _durable: dict[str, StoredFile] = field(default_factory=dict)
    _unsynced: list[Change] = field(default_factory=list)

    def link(self, name: str, file: StoredFile) -> None:
        """A new name."""
        self.files[name] = file
        self._unsynced.append((name, file, ""))

    def unlink(self, name: str) -> None:
        """Raises KeyError when it is not there."""
        del self.files[name]
        self._unsynced.append((name, None, ""))

    def rename(self, source: str, target: str) -> None:
        """Replaces the target. Raises KeyError when the source is not there."""
        file = self.files.pop(source)
        self.files[target] = file
        self._unsynced.append((target, file, source))

    def sync(self) -> None:
        """Every name is durable."""
        if self._unsynced:
            self._durable = dict(self.files)
            self._unsynced.clear()

    def is_durable(self, name: str) -> bool:
        """Whether this name stays, and means the same file, whatever happens."""
        return self._durable.get(name) is self.files.get(name)

    def durable_files(self) -> dict[str, StoredFile]:
        """By names that were synced."""
        return self._durable

    def lose_power(self, random: Random) -> None:
        """And come back with some of the changes that were not synced."""
        kept = random.randint(0, len(self._unsynced)) if self._unsynced else 0
        for name, file, gone in self._unsynced[:kept]:
            self._durable.pop(gone, None)
            if file is None:
                self._durable.pop(name, None)
            else:
                self._durable[name] = file
        self.files = dict(self._durable)
        self._unsynced.clear()
