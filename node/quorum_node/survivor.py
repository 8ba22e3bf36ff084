"""The replica that a lost quorum is recovered from, exactly as it was accepted.

Owns what a confirmation names, its text form, and the replica UUID that the survivor has afterwards. The operator
prints it, a person confirms it, the node checks it; so all three mean the same log. Source of the comparison: Raft,
5.4.1 (of two logs the one with the higher epoch of its last record, then the longer one, has more).

The new UUID follows from the confirmation: one that was carried out names a replica that is no more, and can't be
carried out again.
"""

from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from uuid import UUID

from quorum_node.records.identity import parse_uuid, uuid_text

_FORM = "UUID:EPOCH:END_OFFSET"


@dataclass(frozen=True, slots=True)
class Survivor:
    """Replica `uuid`, whose log ends at `end_offset` (exclusive) with a record of `epoch`."""

    uuid: UUID
    epoch: int
    end_offset: int

    def __str__(self) -> str:
        return f"{uuid_text(self.uuid)}:{self.epoch}:{self.end_offset}"

    @property
    def recovered_uuid(self) -> UUID:
        """The replica's UUID once it is the sole voter. No member of the lost quorum knows it as a voter."""
        for attempt in count():
            digest = sha256(f"sole voter after {self}, {attempt}".encode()).digest()
            uuid = UUID(bytes=digest[:16], version=4)
            if not uuid_text(uuid).startswith("-"):  # see fresh_uuid
                return uuid
        raise AssertionError("unreachable")


def parse_survivor(text: str) -> Survivor:
    """The reverse of `str`. Raises ValueError."""
    parts = text.split(":")
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        raise ValueError(f"{text!r} is not {_FORM}")
    return Survivor(parse_uuid(parts[0]), int(parts[1]), int(parts[2]))
