"""The voters of a downloaded snapshot get the position of their record in the log, if that is possible."""

import pytest

from quorum_node.raft.voters import VoterHistory, snapshot_entry
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import Voter
from quorum_node.records.snapshot_id import SnapshotId
from support.raft.cores import endpoints_of, key_of

ID = SnapshotId(40, 3)
VOTERS = (Voter(key_of(1), endpoints_of("1")),)


@pytest.mark.parametrize("place", [(0, 0), (39, 3), (7, 1)])
def test_snapshot_entry_within_bounds_is_kept(place: tuple[int, int]) -> None:
    entry = snapshot_entry(ID, VotersRecord(VOTERS, log_position=place))
    assert (entry.offset, entry.epoch) == place


@pytest.mark.parametrize(
    "place", [None, (40, 3), (1 << 60, 3), (-1, 0), (7, 4), (7, 2**31 - 1), (7, -1)]
)
def test_snapshot_entry_out_of_bounds_is_replaced_by_its_end(place: tuple[int, int] | None) -> None:
    """A leader could name any; the next voters record has to fit behind it, in an epoch that there was."""
    entry = snapshot_entry(ID, VotersRecord(VOTERS, log_position=place))
    assert (entry.offset, entry.epoch) == (39, 3)
    VoterHistory(entry).append(40, 3, VotersRecord(VOTERS))
