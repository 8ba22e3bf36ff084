"""Findings of an audit: which replica, which file, where, what. PURE."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. `position` in `file` (bytes) and `offset` in the log, if they are known."""

    replica: str
    file: str
    position: int | None
    offset: int | None
    what: str

    def __str__(self) -> str:
        place = [self.file] if self.file else []
        if self.position is not None:
            place.append(f"byte {self.position}")
        if self.offset is not None:
            place.append(f"offset {self.offset}")
        return f"{self.replica}: {', '.join(place)}: {self.what}"
