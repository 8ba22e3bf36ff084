"""The ISR as its leader changes it: who leaves, who joins, and what counts meanwhile."""

import pytest

from quorum_node.broker.errors import IsrError
from quorum_node.broker.events import IsrRefused, IsrTaken
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import ProposeIsr
from quorum_node.broker.settings import PartitionSettings
from support.replica_scene import LAG_MS, ME, B, C, ReplicaScene, leading


def lagging_c() -> ReplicaScene:
    """B follows closely, C never fetches: the leader asks for an ISR without it."""
    scene = leading()
    scene.produce(2)
    scene.write()
    scene.fetched_by(B, 2)
    scene.wait(LAG_MS)
    assert scene.proposed() is None
    scene.wait(1)
    assert scene.proposed() == [ME, B]
    return scene


def asked(scene: ReplicaScene) -> ProposeIsr:
    return scene.one(ProposeIsr)


@pytest.mark.requirement("KV3-10")
def test_a_follower_that_never_fetches_falls_out_and_counts_until_the_controller_agrees() -> None:
    scene = lagging_c()
    proposal = asked(scene)
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 9)
    assert proposal.members == ((ME, 11), (B, 12))
    assert scene.replica.high_watermark == 0
    scene.step(IsrTaken(proposal.proposal_id, 5, 10, (ME, B)))
    assert scene.replica.high_watermark == 2
    assert scene.replica.partition_epoch == 10


@pytest.mark.requirement("KV3-10")
def test_a_slow_follower_falls_out_and_one_with_everything_stays_however_silent() -> None:
    scene = leading()
    scene.produce()
    scene.write()
    scene.fetched_by(B, 1)
    scene.fetched_by(C, 1)
    scene.wait(10 * LAG_MS)
    assert scene.proposed() is None
    scene.fetched_by(B, 1)
    scene.fetched_by(C, 1)
    scene.produce()
    scene.write()
    scene.produce()
    scene.write()
    scene.fetched_by(C, 2)
    scene.fetched_by(B, 3)
    scene.now_ms += LAG_MS
    scene.fetched_by(C, 2)
    assert scene.proposed() is None
    scene.wait(1)
    assert scene.proposed() == [ME, B]


@pytest.mark.requirement("KV3-10")
def test_a_follower_is_caught_up_if_it_reaches_what_the_leader_had_at_its_last_fetch() -> None:
    """Under steady load nobody ever has everything."""
    scene = leading(isr=(ME, B))
    for _ in range(10):
        end = scene.replica.end_offset
        scene.produce()
        scene.write()
        scene.now_ms += LAG_MS * 0.6
        scene.fetched_by(B, end)
        assert scene.proposed() is None


@pytest.mark.requirement("KV3-10")
def test_a_burst_alone_is_no_lag_in_bytes() -> None:
    settings = PartitionSettings(replica_lag_max_bytes=1000)
    scene = leading(settings=settings, isr=(ME, B))
    scene.produce(9)
    scene.write()
    scene.fetched_by(B, 1, behind_bytes=1500)
    scene.fetched_by(B, 2, behind_bytes=1200)
    assert scene.proposed() is None
    scene.fetched_by(B, 3, behind_bytes=900)
    scene.fetched_by(B, 4, behind_bytes=1100)
    scene.fetched_by(B, 5, behind_bytes=1100)
    assert scene.proposed() is None, "it was within the limit meanwhile"
    scene.fetched_by(B, 6, behind_bytes=1100)
    assert scene.proposed() == [ME]


@pytest.mark.requirement("KV3-10")
def test_a_follower_that_stays_far_behind_falls_out_after_half_a_second() -> None:
    scene = leading(settings=PartitionSettings(replica_lag_max_bytes=1000), isr=(ME, B))
    scene.produce(9)
    scene.write()
    scene.fetched_by(B, 1, behind_bytes=1001)
    scene.wait(499)
    assert scene.proposed() is None
    scene.wait(1)
    assert scene.proposed() == [ME]


@pytest.mark.requirement("KV3-10")
def test_a_follower_rejoins_below_half_of_the_lag_in_bytes() -> None:
    scene = leading(settings=PartitionSettings(replica_lag_max_bytes=1000), isr=(ME,))
    scene.fetched_by(B, 0, behind_bytes=500)
    assert scene.proposed() is None
    scene.fetched_by(B, 0, behind_bytes=499)
    assert scene.proposed() == [ME, B]


@pytest.mark.requirement("KV3-10")
def test_a_follower_joins_when_it_has_what_is_committed_and_counts_from_then_on() -> None:
    scene = leading(isr=(ME, B))
    scene.produce(2)
    scene.write()
    scene.fetched_by(B, 2)
    assert scene.replica.high_watermark == 2
    scene.fetched_by(C, 1)
    assert scene.proposed() is None
    scene.fetched_by(C, 2)
    assert scene.proposed() == [ME, B, C]
    proposal = asked(scene)
    scene.produce()
    scene.write()
    scene.fetched_by(B, 3)
    assert scene.replica.high_watermark == 2, "C may be a member already"
    scene.step(IsrRefused(proposal.proposal_id, IsrError.INELIGIBLE_REPLICA))
    assert scene.proposed() is None, "not at once: the controller's reason has not gone"
    assert scene.leader.in_sync.maximal == {ME, B}
    scene.fetched_by(C, 2)
    assert scene.proposed() == [ME, B, C]


@pytest.mark.requirement("KV3-10")
def test_nobody_joins_before_it_has_what_earlier_leaders_left() -> None:
    """The high watermark of a new leader may be far behind what the leader before it committed."""
    opened = OpenedLog(end_offset=20, high_watermark=5, epoch_starts=((1, 0),))
    scene = leading(isr=(ME, B), opened=opened)
    scene.fetched_by(C, 19)
    assert scene.proposed() is None
    scene.fetched_by(C, 20)
    assert scene.proposed() == [ME, B, C]


@pytest.mark.requirement("KV3-10")
@pytest.mark.parametrize("epoch", [None, 14])
def test_nobody_joins_who_is_fenced_or_was_restarted(epoch: int | None) -> None:
    scene = leading(isr=(ME, B))
    if epoch is None:
        del scene.active[C]
    else:
        scene.active[C] = epoch
    scene.told(ME, 5, 9, isr=(ME, B))
    scene.fetched_by(C, 0, broker_epoch=13)
    assert scene.proposed() is None


@pytest.mark.requirement("KV3-10")
def test_an_unanswered_proposal_is_asked_again_as_it_was() -> None:
    scene = lagging_c()
    first = asked(scene)
    scene.step(IsrRefused(first.proposal_id, IsrError.UNANSWERED))
    assert asked(scene) == first
    scene.step(IsrRefused(first.proposal_id, IsrError.NOT_ATTEMPTED))
    assert asked(scene) == first, "nobody knows what became of the one before"
    scene.step(IsrRefused(first.proposal_id, IsrError.OVERTAKEN))
    assert scene.proposed() is None
    scene.wait(LAG_MS)
    assert scene.proposed() is None, "metadata has to tell first"
    scene.told(ME, 5, 11, isr=(ME, B, C))
    again = asked(scene)
    assert (again.partition_epoch, again.proposal_id) == (11, first.proposal_id + 1)


@pytest.mark.requirement("KV3-10")
def test_a_refused_proposal_is_made_again_from_what_is_committed() -> None:
    scene = lagging_c()
    first = asked(scene)
    scene.step(IsrRefused(first.proposal_id, IsrError.NOT_ATTEMPTED))
    assert scene.proposed() is None
    scene.wait(1)
    assert scene.proposed() == [ME, B]
    assert asked(scene).proposal_id > first.proposal_id


@pytest.mark.requirement("KV3-08")
@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 12), (6, 12), (5, 8)])
def test_an_answer_of_another_epoch_changes_nothing(
    leader_epoch: int, partition_epoch: int
) -> None:
    scene = lagging_c()
    proposal = asked(scene)
    scene.step(IsrTaken(proposal.proposal_id, leader_epoch, partition_epoch, (ME,)))
    assert scene.leader.in_sync.committed == {ME, B, C}
    assert scene.leader.in_sync.proposal is not None


def test_an_answer_to_an_earlier_leadership_is_ignored() -> None:
    scene = lagging_c()
    old = asked(scene)
    scene.told(B, 6, 10)
    scene.told(ME, 7, 11)
    scene.now_ms += 2 * LAG_MS
    scene.fetched_by(B, 2)
    new = asked(scene)
    assert new.proposal_id > old.proposal_id
    scene.step(IsrRefused(old.proposal_id, IsrError.INELIGIBLE_REPLICA))
    assert scene.leader.in_sync.proposal is not None


@pytest.mark.requirement("KV3-10")
def test_metadata_that_arrives_before_the_answer_is_not_undone_by_it() -> None:
    scene = lagging_c()
    proposal = asked(scene)
    scene.told(ME, 5, 10, isr=(ME, B))
    scene.told(ME, 5, 11, isr=(ME, B, C))
    scene.step(IsrTaken(proposal.proposal_id, 5, 10, (ME, B)))
    assert scene.leader.in_sync.committed == {ME, B, C}
