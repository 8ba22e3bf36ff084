"""The names in one directory: the present ones, and those after a power failure.

Owns names and their durability. Must not know the content of files. Names that were not synced become durable in the
order in which they changed, as with any journal: a loss of power keeps the first few of the changes.
"""

from dataclasses import dataclass, field
from random import Random

from quorum_simulation.files.stored_file import StoredFile

Change = tuple[str, StoredFile | None, str]
"""(name, its file now or None if it was removed, another name that is removed with it or "")."""


@dataclass(slots=True)
class Folder:
    """`files`: by name, as processes see them."""

    files: dict[str, StoredFile] = field(default_factory=dict)
    _durable: dict[str, StoredFile] = field(default_factory=dict)
    _unsynced: list[Change] = field(default_factory=list)

    def link(self, name: str, file: StoredFile) -> None:
        """Add a name."""
        self.files[name] = file
        self._unsynced.append((name, file, ""))

    def unlink(self, name: str) -> None:
        """Remove a name. Raises KeyError if it does not exist."""
        del self.files[name]
        self._unsynced.append((name, None, ""))

    def rename(self, source: str, target: str) -> None:
        """Rename; the target is replaced. Raises KeyError if the source does not exist."""
        file = self.files.pop(source)
        self.files[target] = file
        self._unsynced.append((target, file, source))

    def sync(self) -> None:
        """Make every name durable."""
        if self._unsynced:
            self._durable = dict(self.files)
            self._unsynced.clear()

    def is_durable(self, name: str) -> bool:
        """Whether this name refers to the same file after any failure."""
        return self._durable.get(name) is self.files.get(name)

    def durable_files(self) -> dict[str, StoredFile]:
        """Files by their synced names."""
        return self._durable

    def lose_power(self, random: Random) -> None:
        """A power failure: some of the unsynced changes are kept."""
        kept = random.randint(0, len(self._unsynced)) if self._unsynced else 0
        for name, file, gone in self._unsynced[:kept]:
            self._durable.pop(gone, None)
            if file is None:
                self._durable.pop(name, None)
            else:
                self._durable[name] = file
        self.files = dict(self._durable)
        self._unsynced.clear()
