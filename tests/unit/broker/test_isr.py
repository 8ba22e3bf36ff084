"""The ISR as its leader changes it: who leaves, who joins, and what counts meanwhile."""

import pytest

from quorum_node.broker.errors import IsrError
from quorum_node.broker.events import IsrRefused, IsrTaken
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import ProposeIsr
from quorum_node.broker.settings import PartitionSettings
from support.replica_env import LAG_MS, ME, B, C, ReplicaEnv, leading


def lagging_c() -> ReplicaEnv:
    """B follows closely, C never fetches: the leader proposes an ISR without it."""
    env = leading()
    env.produce(2)
    env.write()
    env.fetched_by(B, 2)
    env.wait(LAG_MS)
    assert env.proposed() is None
    env.wait(1)
    assert env.proposed() == [ME, B]
    return env


def asked(env: ReplicaEnv) -> ProposeIsr:
    return env.one(ProposeIsr)


@pytest.mark.requirement("KV3-10")
def test_follower_that_never_fetches_is_removed_and_counts_until_the_controller_commits() -> None:
    env = lagging_c()
    proposal = asked(env)
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 9)
    assert proposal.members == ((ME, 11), (B, 12))
    assert env.replica.high_watermark == 0
    env.step(IsrTaken(proposal.proposal_id, 5, 10, (ME, B)))
    assert env.replica.high_watermark == 2
    assert env.replica.partition_epoch == 10


@pytest.mark.requirement("KV3-10")
def test_slow_follower_is_removed_and_a_complete_silent_one_stays() -> None:
    env = leading()
    env.produce()
    env.write()
    env.fetched_by(B, 1)
    env.fetched_by(C, 1)
    env.wait(10 * LAG_MS)
    assert env.proposed() is None
    env.fetched_by(B, 1)
    env.fetched_by(C, 1)
    env.produce()
    env.write()
    env.produce()
    env.write()
    env.fetched_by(C, 2)
    env.fetched_by(B, 3)
    env.now_ms += LAG_MS
    env.fetched_by(C, 2)
    assert env.proposed() is None
    env.wait(1)
    assert env.proposed() == [ME, B]


@pytest.mark.requirement("KV3-10")
def test_follower_is_caught_up_if_it_reaches_the_log_end_at_its_last_fetch() -> None:
    """Under steady load no follower ever has all records."""
    env = leading(isr=(ME, B))
    for _ in range(10):
        end = env.replica.end_offset
        env.produce()
        env.write()
        env.now_ms += LAG_MS * 0.6
        env.fetched_by(B, end)
        assert env.proposed() is None


@pytest.mark.requirement("KV3-10")
def test_single_burst_is_no_lag_in_bytes() -> None:
    settings = PartitionSettings(replica_lag_max_bytes=1000)
    env = leading(settings=settings, isr=(ME, B))
    env.produce(9)
    env.write()
    env.fetched_by(B, 1, behind_bytes=1500)
    env.fetched_by(B, 2, behind_bytes=1200)
    assert env.proposed() is None
    env.fetched_by(B, 3, behind_bytes=900)
    env.fetched_by(B, 4, behind_bytes=1100)
    env.fetched_by(B, 5, behind_bytes=1100)
    assert env.proposed() is None, "the replica was within the limit in between"
    env.fetched_by(B, 6, behind_bytes=1100)
    assert env.proposed() == [ME]


@pytest.mark.requirement("KV3-10")
def test_far_lagging_follower_is_removed_after_half_a_second() -> None:
    env = leading(settings=PartitionSettings(replica_lag_max_bytes=1000), isr=(ME, B))
    env.produce(9)
    env.write()
    env.fetched_by(B, 1, behind_bytes=1001)
    env.wait(499)
    assert env.proposed() is None
    env.wait(1)
    assert env.proposed() == [ME]


@pytest.mark.requirement("KV3-10")
def test_follower_rejoins_below_half_of_the_lag_limit_in_bytes() -> None:
    env = leading(settings=PartitionSettings(replica_lag_max_bytes=1000), isr=(ME,))
    env.fetched_by(B, 0, behind_bytes=500)
    assert env.proposed() is None
    env.fetched_by(B, 0, behind_bytes=499)
    assert env.proposed() == [ME, B]


@pytest.mark.requirement("KV3-10")
def test_follower_joins_with_all_committed_records_and_counts_from_then_on() -> None:
    env = leading(isr=(ME, B))
    env.produce(2)
    env.write()
    env.fetched_by(B, 2)
    assert env.replica.high_watermark == 2
    env.fetched_by(C, 1)
    assert env.proposed() is None
    env.fetched_by(C, 2)
    assert env.proposed() == [ME, B, C]
    proposal = asked(env)
    env.produce()
    env.write()
    env.fetched_by(B, 3)
    assert env.replica.high_watermark == 2, "C may be a member already"
    env.step(IsrRefused(proposal.proposal_id, IsrError.INELIGIBLE_REPLICA))
    assert env.proposed() is None, "repeated at once, although the reason for the refusal remains"
    assert env.leader.in_sync.maximal == {ME, B}
    env.fetched_by(C, 2)
    assert env.proposed() == [ME, B, C]


@pytest.mark.requirement("KV3-10")
def test_no_follower_joins_before_it_has_the_records_of_earlier_leaders() -> None:
    """The high watermark of a new leader may be far behind what the previous leader committed."""
    opened = OpenedLog(end_offset=20, high_watermark=5, epoch_starts=((1, 0),))
    env = leading(isr=(ME, B), opened=opened)
    env.fetched_by(C, 19)
    assert env.proposed() is None
    env.fetched_by(C, 20)
    assert env.proposed() == [ME, B, C]


@pytest.mark.requirement("KV3-10")
@pytest.mark.parametrize("epoch", [None, 14])
def test_fenced_or_restarted_follower_does_not_join(epoch: int | None) -> None:
    env = leading(isr=(ME, B))
    if epoch is None:
        del env.active[C]
    else:
        env.active[C] = epoch
    env.told(ME, 5, 9, isr=(ME, B))
    env.fetched_by(C, 0, broker_epoch=13)
    assert env.proposed() is None


@pytest.mark.requirement("KV3-10")
def test_unanswered_proposal_is_resent_unchanged() -> None:
    env = lagging_c()
    first = asked(env)
    env.step(IsrRefused(first.proposal_id, IsrError.UNANSWERED))
    assert asked(env) == first
    env.step(IsrRefused(first.proposal_id, IsrError.NOT_ATTEMPTED))
    assert asked(env) == first, "the outcome of the earlier request is unknown"
    env.step(IsrRefused(first.proposal_id, IsrError.OVERTAKEN))
    assert env.proposed() is None
    env.wait(LAG_MS)
    assert env.proposed() is None, "waits for the metadata update"
    env.told(ME, 5, 11, isr=(ME, B, C))
    again = asked(env)
    assert (again.partition_epoch, again.proposal_id) == (11, first.proposal_id + 1)


@pytest.mark.requirement("KV3-10")
def test_rejected_proposal_is_rebuilt_from_the_committed_state() -> None:
    env = lagging_c()
    first = asked(env)
    env.step(IsrRefused(first.proposal_id, IsrError.NOT_ATTEMPTED))
    assert env.proposed() is None
    env.wait(1)
    assert env.proposed() == [ME, B]
    assert asked(env).proposal_id > first.proposal_id


@pytest.mark.requirement("KV3-08")
@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 12), (6, 12), (5, 8)])
def test_response_of_another_epoch_changes_nothing(leader_epoch: int, partition_epoch: int) -> None:
    env = lagging_c()
    proposal = asked(env)
    env.step(IsrTaken(proposal.proposal_id, leader_epoch, partition_epoch, (ME,)))
    assert env.leader.in_sync.committed == {ME, B, C}
    assert env.leader.in_sync.proposal is not None


def test_response_to_an_earlier_leadership_is_ignored() -> None:
    env = lagging_c()
    old = asked(env)
    env.told(B, 6, 10)
    env.told(ME, 7, 11)
    env.now_ms += 2 * LAG_MS
    env.fetched_by(B, 2)
    new = asked(env)
    assert new.proposal_id > old.proposal_id
    env.step(IsrRefused(old.proposal_id, IsrError.INELIGIBLE_REPLICA))
    assert env.leader.in_sync.proposal is not None


@pytest.mark.requirement("KV3-10")
def test_metadata_received_before_the_response_is_not_reverted_by_it() -> None:
    env = lagging_c()
    proposal = asked(env)
    env.told(ME, 5, 10, isr=(ME, B))
    env.told(ME, 5, 11, isr=(ME, B, C))
    env.step(IsrTaken(proposal.proposal_id, 5, 10, (ME, B)))
    assert env.leader.in_sync.committed == {ME, B, C}


@pytest.mark.parametrize("min_insync_replicas", [1, 2])
def test_silent_follower_does_not_rejoin_below_min_isr(min_insync_replicas: int) -> None:
    """Below min.insync.replicas the high watermark stands still, so that the silent follower still has every committed record."""
    settings = PartitionSettings(
        min_insync_replicas=min_insync_replicas, replica_lag_time_max_ms=LAG_MS
    )
    env = leading(isr=(ME, B), settings=settings)
    env.fetched_by(B, 0)
    env.produce()
    env.write()
    env.wait(LAG_MS + 1)
    assert env.proposed() == [ME]
    env.step(IsrTaken(asked(env).proposal_id, 5, 10, (ME,)))
    assert env.proposed() is None, "it would be removed again at once, and so on"
    env.wait(LAG_MS)
    assert env.proposed() is None
    env.fetched_by(B, 1)
    assert env.proposed() == [ME, B]
