"""Voter sets and their history in the log.

Owns which voter set is the latest (acts at append) and which is the latest committed one, and undoes
what a truncation takes away. Must not know who asks for changes.
Source: KIP-595, "Quorum Change Protocol"; KIP-853. A set may hold an id twice: the newest key is last.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from quorum_node.raft.messages import VotersPosition
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_id import SnapshotId


class VoterSet:
    """An ordered set of voters, immutable."""

    __slots__ = ("_by_key", "ordered_keys", "voters")

    def __init__(self, voters: tuple[Voter, ...] = ()) -> None:
        self.voters = voters
        self.ordered_keys = tuple(voter.key for voter in voters)
        self._by_key = {voter.key: voter for voter in voters}
        assert len(self._by_key) == len(voters), "a replica key stands once in a voter set"

    def __len__(self) -> int:
        return len(self.voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __contains__(self, key: ReplicaKey) -> bool:
        return key in self._by_key

    def get(self, key: ReplicaKey) -> Voter | None:
        return self._by_key.get(key)

    def newest(self, id: int) -> Voter | None:
        """The last entry with that id: the only one that campaigns while the id is doubled."""
        return next((voter for voter in reversed(self.voters) if voter.key.id == id), None)

    def is_newest(self, key: ReplicaKey) -> bool:
        """Whether `key` is a voter and no newer key of its id is one."""
        newest = self.newest(key.id)
        return newest is not None and newest.key == key

    def added(self, voter: Voter) -> "VoterSet":
        """With one more, at the end."""
        return VoterSet((*self.voters, voter))

    def removed(self, key: ReplicaKey) -> "VoterSet":
        """Without that key."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def identified(self, key: ReplicaKey) -> "VoterSet":
        """With this key for its id, whatever UUID was known of it: before the first voters record."""
        return VoterSet(
            tuple(replace(v, key=key) if v.key.id == key.id else v for v in self.voters)
        )

    def updated(self, key: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> "VoterSet":
        """With other endpoints for a key; order and keys stay."""
        return VoterSet(
            tuple(
                replace(voter, endpoints=endpoints) if voter.key == key else voter
                for voter in self.voters
            )
        )


MAX_TOMBSTONES = 64
"""The oldest are forgotten: a replica that is gone for that many changes hardly comes back."""


def tombstones_after(
    tombstones: tuple[ReplicaKey, ...], before: VoterSet, after: VoterSet
) -> tuple[ReplicaKey, ...]:
    """Who was removed and may not join again by itself; whoever was added has none any more."""
    removed = tuple(key for key in before.ordered_keys if key not in after)
    kept = tuple(key for key in tombstones if key not in after and key not in removed)
    return (*kept, *removed)[-MAX_TOMBSTONES:]


@dataclass(frozen=True, slots=True)
class VotersEntry:
    """A voter set and the record that carries it; offset -1: known without a record."""

    offset: int
    epoch: int
    voters: VoterSet
    record: VotersRecord

    @property
    def position(self) -> VotersPosition:
        return VotersPosition(self.offset, self.epoch)


def snapshot_entry(id: SnapshotId, record: VotersRecord) -> VotersEntry:
    """The voters of a snapshot, at the place in the log that their record had, if that is told.

    A place that is not before the snapshot's end is none: records that follow could not stand behind it.
    """
    last = (id.end_offset - 1, id.epoch)
    offset, epoch = record.log_position or last
    if not (0 <= offset <= last[0] and 0 <= epoch <= last[1]):
        offset, epoch = last
    return VotersEntry(offset, epoch, VoterSet(record.voters), replace(record, log_position=None))


class VoterHistory:
    """Every voter set of the log, oldest first; the last one is in force."""

    def __init__(self, base: VotersEntry | None = None) -> None:
        self._entries = [base or VotersEntry(-1, -1, VoterSet(), VotersRecord(()))]
        self._committed = 0
        self.recovered_epoch = self._last_recovery()
        """Epoch of the last recovery that these records tell of, 0 for none."""

    def _last_recovery(self) -> int:
        """A stock leader's records lack it, and undo no recovery that an earlier one tells of."""
        return max(entry.record.recovered_epoch for entry in self._entries)

    @property
    def latest(self) -> VotersEntry:
        """The set that acts: appended, maybe not committed."""
        return self._entries[-1]

    @property
    def committed(self) -> VotersEntry:
        """The latest set that is known to be committed."""
        return self._entries[self._committed]

    @property
    def latest_is_committed(self) -> bool:
        return self._committed == len(self._entries) - 1

    @property
    def entries(self) -> tuple[VotersEntry, ...]:
        return tuple(self._entries)

    def append(self, offset: int, epoch: int, record: VotersRecord) -> None:
        """A voters record at `offset`, behind all others."""
        assert offset > self.latest.offset, f"voters at {offset} after {self.latest.offset}"
        self._entries.append(VotersEntry(offset, epoch, VoterSet(record.voters), record))
        self.recovered_epoch = self._last_recovery()

    def rebase(self, voters: VoterSet) -> None:
        """Another set to start from, as long as no record says who the voters are."""
        assert self.latest.offset < 0, "a voters record is known"
        self._entries = [VotersEntry(-1, -1, voters, VotersRecord(voters.voters))]
        self.recovered_epoch = 0

    def truncate(self, end_offset: int) -> bool:
        """Undo records from `end_offset` on; True if the latest set changed by that.

        Committed entries can't be truncated: the caller checks against the high watermark first.
        """
        before = len(self._entries)
        while len(self._entries) > 1 and self._entries[-1].offset >= end_offset:
            assert len(self._entries) - 1 > self._committed, "a committed voter set was truncated"
            self._entries.pop()
        self.recovered_epoch = self._last_recovery()
        return len(self._entries) != before

    def commit(self, high_watermark: int) -> list[VotersEntry]:
        """Entries that become committed by this high watermark, oldest first."""
        found = []
        last = len(self._entries) - 1
        while self._committed < last and self._entries[self._committed + 1].offset < high_watermark:
            self._committed += 1
            found.append(self._entries[self._committed])
        return found

    def reset(self, base: VotersEntry | None) -> None:
        """The log begins behind a snapshot with these voters; None: it says nothing of them."""
        self._entries = [base or self.committed]
        self._committed = 0
        self.recovered_epoch = self._last_recovery()

    def before(self, end_offset: int) -> list[VotersEntry]:
        """Sets of a state up to `end_offset`, which is not before the first set; the last is in force."""
        found = [entry for entry in self._entries if entry.offset < end_offset]
        assert found, f"voters at {end_offset} are not known any more"
        return found

    def removal_offset(self, key: ReplicaKey) -> int | None:
        """Offset of the record that removed a former voter, if it is one and is none now."""
        if key in self.latest.voters:
            return None
        for index in range(len(self._entries) - 1, 0, -1):
            if key in self._entries[index - 1].voters:
                return self._entries[index].offset
        return None
