"""Which replica leads: the table of the rule."""

import pytest

from quorum_node.controller.partition_leader import NO_LEADER, Candidates, Elected, Election, elect

CLEAN, UNCLEAN = False, True


def chosen(
    election: Election,
    alive: str,
    leader: int = NO_LEADER,
    isr: tuple[int, ...] = (),
    eligible: tuple[int, ...] = (),
    last_leader: int = NO_LEADER,
) -> Elected:
    """Elect one of replicas 1, 2, 3; `alive` are the live ones."""
    living = set(map(int, alive))
    given = Candidates(leader, (1, 2, 3), isr, eligible, last_leader)
    return elect(given, living.__contains__, election)


@pytest.mark.requirement("KV3-01")
@pytest.mark.parametrize("election", [Election.ONLINE, Election.UNCLEAN])
def test_eligible_leader_remains_leader(election: Election) -> None:
    assert chosen(election, "123", leader=2, isr=(1, 2, 3)) == (2, CLEAN)


@pytest.mark.requirement("KV3-01")
def test_first_live_assigned_isr_replica_replaces_a_dead_leader() -> None:
    assert chosen(Election.ONLINE, "23", leader=1, isr=(3, 2, 1)) == (2, CLEAN)
    assert chosen(Election.ONLINE, "23", leader=1, isr=(1, 3)) == (3, CLEAN)


@pytest.mark.requirement("KV3-01")
def test_replica_outside_the_isr_leads_only_if_data_loss_is_allowed() -> None:
    assert chosen(Election.ONLINE, "23", leader=1, isr=(1,)) == (NO_LEADER, CLEAN)
    assert chosen(Election.UNCLEAN, "23", leader=1, isr=(1,)) == (2, UNCLEAN)
    assert chosen(Election.UNCLEAN, "3", leader=1, isr=(1,)) == (3, UNCLEAN)
    assert chosen(Election.UNCLEAN, "3", leader=1, isr=(1, 3)) == (3, CLEAN)


def test_leader_outside_the_isr_is_replaced() -> None:
    assert chosen(Election.ONLINE, "123", leader=1, isr=(2, 3)) == (2, CLEAN)


@pytest.mark.requirement("KV3-01")
def test_partition_without_live_replicas_has_no_leader() -> None:
    for election in Election:
        assert chosen(election, "", leader=1, isr=(1, 2)) == (NO_LEADER, CLEAN)


def test_preferred_election_prefers_the_first_replica_and_never_loses_data() -> None:
    assert chosen(Election.PREFERRED, "123", leader=2, isr=(1, 2)) == (1, CLEAN)
    assert chosen(Election.PREFERRED, "23", leader=3, isr=(1, 2, 3)) == (3, CLEAN)
    assert chosen(Election.PREFERRED, "123", leader=2, isr=(2, 3)) == (2, CLEAN)
    assert chosen(Election.PREFERRED, "1", leader=2, isr=(2,)) == (NO_LEADER, CLEAN)


def test_eligible_replicas_lead_only_when_the_isr_is_empty() -> None:
    assert chosen(Election.ONLINE, "3", leader=1, isr=(1,), eligible=(3,)) == (NO_LEADER, CLEAN)
    assert chosen(Election.ONLINE, "23", leader=1, isr=(), eligible=(3,)) == (3, CLEAN)
    assert chosen(Election.PREFERRED, "13", leader=3, isr=(), eligible=(1, 3)) == (1, CLEAN)


def test_last_known_leader_leads_again_if_no_other_replica_is_complete() -> None:
    assert chosen(Election.ONLINE, "12", isr=(), last_leader=2) == (2, UNCLEAN)
    assert chosen(Election.ONLINE, "1", isr=(), last_leader=2) == (NO_LEADER, CLEAN)
    assert chosen(Election.ONLINE, "12", isr=(), eligible=(3,), last_leader=2) == (NO_LEADER, CLEAN)
