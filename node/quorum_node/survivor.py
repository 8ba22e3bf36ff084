"""The survivor: the replica from which a quorum that lost its majority is recovered.

Owns the text form of a confirmation, and the replica UUID of the survivor after the recovery. The
operator prints the confirmation, a person accepts it and the node checks it, so all three refer to
the same log. The more up-to-date log is defined by Raft, section 5.4.1: higher epoch of the last
record, then greater length.

The new UUID is derived from the confirmation. A confirmation that was carried out names a UUID that
no longer exists, so it can't be used twice.
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
        """UUID of the replica after the recovery. Members of the lost quorum don't know it as a
        voter.
        """
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
