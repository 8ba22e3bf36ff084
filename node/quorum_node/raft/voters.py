"""Voter sets and their history in the log.

Owns the latest voter set (in effect from the append) and the latest committed one, and reverts what
a truncation removes. Must not know who requests changes.
Source: KIP-595, "Quorum Change Protocol"; KIP-853. An id may have two keys in a set: the newest key
is last.
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
        """The last entry with that id. While an id has two keys, only this one starts elections."""
        return next((voter for voter in reversed(self.voters) if voter.key.id == id), None)

    def is_newest(self, key: ReplicaKey) -> bool:
        """Whether `key` is a voter and no newer key of its id is one."""
        newest = self.newest(key.id)
        return newest is not None and newest.key == key

    def added(self, voter: Voter) -> "VoterSet":
        """The set with another voter at the end."""
        return VoterSet((*self.voters, voter))

    def removed(self, key: ReplicaKey) -> "VoterSet":
        """The set without that key."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def identified(self, key: ReplicaKey) -> "VoterSet":
        """The set with this key for its id, whose UUID was unknown: before the first voters record."""
        return VoterSet(
            tuple(replace(v, key=key) if v.key.id == key.id else v for v in self.voters)
        )

    def updated(self, key: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> "VoterSet":
        """The set with other endpoints for a key; order and keys stay."""
        return VoterSet(
            tuple(
                replace(voter, endpoints=endpoints) if voter.key == key else voter
                for voter in self.voters
            )
        )


MAX_TOMBSTONES = 64
"""Number of tombstones that are kept.

A replica whose removal is older than so many changes is unlikely to return.
"""


def tombstones_after(
    tombstones: tuple[ReplicaKey, ...], before: VoterSet, after: VoterSet
) -> tuple[ReplicaKey, ...]:
    """Tombstones after a change: removed voters, which must not join by themselves.

    Adding a voter clears its tombstone.
    """
    removed = tuple(key for key in before.ordered_keys if key not in after)
    kept = tuple(key for key in tombstones if key not in after and key not in removed)
    return (*kept, *removed)[-MAX_TOMBSTONES:]


@dataclass(frozen=True, slots=True)
class VotersEntry:
    """A voter set and the record that contains it; offset -1: known without a record."""

    offset: int
    epoch: int
    voters: VoterSet
    record: VotersRecord

    @property
    def position(self) -> VotersPosition:
        return VotersPosition(self.offset, self.epoch)


def snapshot_entry(id: SnapshotId, record: VotersRecord) -> VotersEntry:
    """The voters of a snapshot, at the offset of their record if the snapshot states it.

    An offset at or after the end of the snapshot is ignored: records that follow could not have
    higher ones.
    """
    last = (id.end_offset - 1, id.epoch)
    offset, epoch = record.log_position or last
    if not (0 <= offset <= last[0] and 0 <= epoch <= last[1]):
        offset, epoch = last
    return VotersEntry(offset, epoch, VoterSet(record.voters), replace(record, log_position=None))


class VoterHistory:
    """All voter sets of the log, oldest first; the last one is in effect."""

    def __init__(self, base: VotersEntry | None = None) -> None:
        self._entries = [base or VotersEntry(-1, -1, VoterSet(), VotersRecord(()))]
        self._committed = 0
        self.recovered_epoch = self._last_recovery()
        """Epoch of the last recovery in these records, 0 for none."""

    def _last_recovery(self) -> int:
        """Epoch of the last recovery. A stock leader's records lack it, which reverts no earlier recovery."""
        return max(entry.record.recovered_epoch for entry in self._entries)

    @property
    def latest(self) -> VotersEntry:
        """The set in effect: appended, possibly not committed."""
        return self._entries[-1]

    @property
    def committed(self) -> VotersEntry:
        """The latest set that is known to be committed."""
        return self._entries[self._committed]

    @property
    def latest_is_committed(self) -> bool:
        return self._committed == len(self._entries) - 1

    def counted(self) -> tuple[ReplicaKey, ...]:
        """Keys of the latest set and of the committed one.

        Until a removal is committed, its commit may need the acknowledgement of the removed voter.
        """
        keys = self.latest.voters.ordered_keys
        if self.latest_is_committed:
            return keys
        return tuple(dict.fromkeys((*keys, *self.committed.voters.ordered_keys)))

    def deciding(self, epoch: int) -> tuple[VoterSet, ...]:
        """The sets of which a majority each is needed for a commit by the leader of `epoch` (`commit.py`)."""
        latest = self.latest
        if self.latest_is_committed or latest.epoch != epoch:
            return (latest.voters,)
        return latest.voters, self.committed.voters

    @property
    def entries(self) -> tuple[VotersEntry, ...]:
        return tuple(self._entries)

    def append(self, offset: int, epoch: int, record: VotersRecord) -> None:
        """A voters record was appended at `offset`."""
        assert offset > self.latest.offset, f"voters at {offset} after {self.latest.offset}"
        self._entries.append(VotersEntry(offset, epoch, VoterSet(record.voters), record))
        self.recovered_epoch = self._last_recovery()

    def rebase(self, voters: VoterSet) -> None:
        """Replace the initial set, as long as there is no voters record."""
        assert self.latest.offset < 0, "a voters record is known"
        self._entries = [VotersEntry(-1, -1, voters, VotersRecord(voters.voters))]
        self.recovered_epoch = 0

    def truncate(self, end_offset: int) -> bool:
        """Revert records from `end_offset` on; True if the latest set changed.

        Committed entries can't be truncated: the caller checks the high watermark first.
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
        """The log was replaced by a snapshot with these voters; None: it has no voters record."""
        self._entries = [base or self.committed]
        self._committed = 0
        self.recovered_epoch = self._last_recovery()

    def before(self, end_offset: int) -> list[VotersEntry]:
        """Sets of a state up to `end_offset`, which does not precede the first set; the last one is
        in effect.
        """
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
