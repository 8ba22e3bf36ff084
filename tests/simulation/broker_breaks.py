"""The data path of brokers broken on purpose, one way at a time: what its simulation has to catch.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.broker import fetch_serving, follower, isr_changes
from quorum_node.broker.epoch_history import EpochHistory
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import FetchPosition
from quorum_node.broker.follower import Follower
from quorum_node.broker.in_sync import InSync
from quorum_node.broker.leader import Leader
from quorum_node.broker.log_shape import LogShape
from quorum_node.broker.outputs import ProduceAnswered
from quorum_node.broker.partition import PartitionReplica
from quorum_node.broker.producers import Duplicate, ProducerStates
from quorum_simulation.broker.disk import PartitionDisk

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def count_the_proposed_isr_on_a_shrink(patch: Patch) -> None:
    """A leader counts a smaller ISR as soon as it has requested it.

    Would: acknowledge records that the follower elected by the controller lacks.
    """
    patch.setattr(
        InSync,
        "maximal",
        property(lambda self: self.committed if self.proposal is None else self.proposal.ids),
    )


def count_the_committed_isr_on_an_expansion(patch: Patch) -> None:
    """A leader does not wait for a follower that it has requested to add to the ISR.

    Would: acknowledge records that a new member of the ISR lacks, before the leader gets the response.
    """
    patch.setattr(InSync, "maximal", property(lambda self: self.committed))


def commit_before_it_is_written(patch: Patch) -> None:
    """The leader counts what its own writer still has.

    Would: acknowledge what the leader loses when its process is killed.
    """
    real = Leader._replicated

    def eager(leader: Leader, now_ms: float) -> int:
        log = leader.state.log
        written, log.written_offset = log.written_offset, log.end_offset
        try:
            return real(leader, now_ms)
        finally:
            log.written_offset = written

    patch.setattr(Leader, "_replicated", eager)


def fetch_before_it_is_written(patch: Patch) -> None:
    """A follower fetches on, and so acknowledges, what its writer still has.

    Would: count replicas that have nothing on disk.
    """
    patch.setattr(LogShape, "is_written", property(lambda self: True))


def serve_without_comparing_epochs(patch: Patch) -> None:
    """The leader serves a follower without comparing epochs.

    Would: leave what a deposed leader wrote in the middle of a log.
    """
    real = EpochHistory.end_of

    def blind(history: EpochHistory, epoch: int, log_end_offset: int) -> Any:
        found = real(history, epoch, log_end_offset)
        return None if found is None else found._replace(epoch=epoch, end_offset=log_end_offset)

    patch.setattr(EpochHistory, "end_of", blind)


def replicate_across_leader_epochs(patch: Patch) -> None:
    """A leader serves followers that know another leader epoch, and these append batches of newer epochs.

    Would: count a follower that is about to follow a leader before this one.
    """
    patch.setattr(fetch_serving, "epoch_error", lambda state, leader_epoch: BrokerError.NONE)
    patch.setattr(follower, "_usable", lambda batches, end_offset, leader_epoch: batches)


def truncate_to_the_high_watermark(patch: Patch) -> None:
    """A follower truncates its log to its high watermark whenever it gets a leader, as in the draft.

    Would: drop records that are committed and not yet known to be (KIP-101).
    """
    real = Follower.__init__

    def cutting(replica: Follower, state: Any, partition: Any) -> None:
        real(replica, state, partition)
        if partition.has_leader and state.log.is_written:
            replica._truncate(state.log.high_watermark)

    patch.setattr(Follower, "__init__", cutting)


def _let_laggards_join(patch: Patch) -> None:
    """The other condition, which a replica that lacks records meets only by chance."""
    real = isr_changes._lags

    def lags(leader: Leader, progress: Any, now_ms: float) -> bool:
        members = [leader.followers.get(each) for each in leader.in_sync.committed]
        return progress in members and real(leader, progress, now_ms)

    patch.setattr(isr_changes, "_lags", lags)


def let_anyone_join(patch: Patch) -> None:
    """A follower may join the ISR however little it has.

    Would: make a leader of a replica that lacks what is committed.
    """
    _let_laggards_join(patch)
    patch.setattr(
        isr_changes, "_may_join", lambda leader, replica_id, progress: progress.end_offset >= 0
    )


def let_join_before_the_epoch_begins(patch: Patch) -> None:
    """A follower that has the high watermark may join, wherever the leader's epoch begins.

    Would: give a seat to a replica that lacks what an earlier leader committed.
    """
    _let_laggards_join(patch)
    real = isr_changes._may_join

    def broken(leader: Leader, replica_id: int, progress: Any) -> bool:
        start, leader.epoch_start_offset = leader.epoch_start_offset, 0
        try:
            return real(leader, replica_id, progress)
        finally:
            leader.epoch_start_offset = start

    patch.setattr(isr_changes, "_may_join", broken)


def apply_older_metadata(patch: Patch) -> None:
    """Metadata takes effect for any partition epoch.

    Would: revert a newer response of the controller.
    """
    real = PartitionReplica._metadata_changed

    def forgetful(replica: PartitionReplica, event: Any, now_ms: float) -> None:
        replica._state.partition_epoch = -1
        if isinstance(replica.role, Leader):
            replica.role.in_sync.partition_epoch = -1
        real(replica, event, now_ms)

    patch.setattr(PartitionReplica, "_metadata_changed", forgetful)


def answer_duplicates_at_once(patch: Patch) -> None:
    """A batch that is in the log already is acknowledged without waiting.

    Would: acknowledge a retry of what is not replicated.
    """
    real = Leader.produce

    def hasty(leader: Leader, event: Any, now_ms: float) -> None:
        found = leader.state.producers.check(event.batch)
        if isinstance(found, Duplicate):
            leader.state.emit(
                ProduceAnswered(event.request_id, BrokerError.NONE, found.base_offset)
            )
        else:
            real(leader, event, now_ms)

    patch.setattr(Leader, "produce", hasty)


def forget_producers(patch: Patch) -> None:
    """No duplicate is found.

    Would: write a retried batch twice.
    """
    patch.setattr(ProducerStates, "check", lambda states, batch, guard: BrokerError.NONE)


def drop_producers_when_elected(patch: Patch) -> None:
    """A new leader starts without the producer states of the previous one.

    Would: write a batch twice if its response was lost with a leader.
    """
    real = Leader.__init__

    def forgetful(leader: Leader, state: Any, partition: Any, now_ms: float) -> None:
        state.producers = ProducerStates()
        real(leader, state, partition, now_ms)

    patch.setattr(Leader, "__init__", forgetful)


def keep_producers_of_what_was_truncated(patch: Patch) -> None:
    """A follower keeps the sequence numbers of batches that it dropped.

    Would: acknowledge a retry as a duplicate of something that is gone.
    """
    real = Follower.truncated

    def keeping(replica: Follower, event: Any) -> None:
        producers = replica.state.producers
        real(replica, event)
        replica.state.producers = producers

    patch.setattr(Follower, "truncated", keeping)


def accept_every_answer(patch: Patch) -> None:
    """A proposal counts as taken over as soon as it is refused.

    Would: commit without a replica that is still in the ISR.
    """
    real = InSync.refused

    def believing(in_sync: InSync, proposal_id: int, error: Any) -> Any:
        proposal = in_sync.proposal
        if proposal is not None and proposal.proposal_id == proposal_id:
            in_sync.committed = proposal.ids
        return real(in_sync, proposal_id, error)

    patch.setattr(InSync, "refused", believing)


def give_up_an_unanswered_proposal(patch: Patch) -> None:
    """A proposal without an answer counts as not taken over.

    Would: commit without a replica that the controller has put into the ISR.
    """
    real = InSync.refused

    def hasty(in_sync: InSync, proposal_id: int, error: Any) -> Any:
        real(in_sync, proposal_id, error)
        in_sync.proposal = None

    patch.setattr(InSync, "refused", hasty)


def drop_the_epoch_of_an_empty_leadership(patch: Patch) -> None:
    """A leader starts its epoch only with its first batch.

    Would: answer a follower of an earlier epoch that their logs agree, though that epoch ended at another offset.
    """
    patch.setattr(
        "quorum_node.broker.replica_state.ReplicaState.enter_epoch", lambda state, epoch: None
    )


def acknowledge_when_deposed(patch: Patch) -> None:
    """A deposed leader acknowledges all waiting requests.

    Would: acknowledge records that the next leader never had.
    """
    real = Leader.resign
    patch.setattr(Leader, "resign", lambda leader, error: real(leader, BrokerError.NONE))


def read_behind_the_high_watermark(patch: Patch) -> None:
    """A consumer gets everything up to the end of the log.

    Would: show what may vanish.
    """
    real = fetch_serving.for_consumer

    def broken(state: Any, event: Any) -> Any:
        served = real(state, event)
        end_offset = max(event.fetch_offset, state.log.end_offset)
        return replace(served, end_offset=end_offset) if hasattr(served, "end_offset") else served

    patch.setattr(fetch_serving, "for_consumer", broken)


def keep_the_isr_for_ever(patch: Patch) -> None:
    """Nobody ever joins the ISR.

    Would: end with one replica.
    """
    patch.setattr(isr_changes, "_may_join", lambda leader, replica_id, progress: False)


def lower_the_high_watermark(patch: Patch) -> None:
    """The high watermark follows the slowest member, down as well.

    Would: hide from consumers what they have read.
    """

    def follow(state: Any, offset: int) -> bool:
        moved: bool = offset > state.log.high_watermark
        state.log.high_watermark = max(offset, 0)
        return moved

    patch.setattr("quorum_node.broker.replica_state.ReplicaState.raise_high_watermark", follow)


def take_answers_to_other_fetches(patch: Patch) -> None:
    """A follower takes every answer for that to its last fetch.

    Would: append what does not follow its log, or cut what a leader of an earlier epoch lacks.
    """
    patch.setattr(Follower, "_is_current", lambda replica, position: True)


def take_answers_from_before_a_truncation(patch: Patch) -> None:
    """A follower takes an answer to a fetch at its log end, though that was in another epoch.

    Would: truncate what the leader committed, as the answer was about the records that were there before.
    """

    def broken(replica: Follower, position: FetchPosition) -> bool:
        now = replica.fetch_position
        return now is not None and (position.leader_epoch, position.fetch_offset) == (
            now.leader_epoch,
            now.fetch_offset,
        )

    patch.setattr(Follower, "_is_current", broken)


def accept_the_leaders_high_watermark(patch: Patch) -> None:
    """A follower takes over the leader's high watermark, however much it has itself.

    Would: make a leader that shows offsets as committed which it does not have.
    """
    patch.setattr(
        Follower,
        "learn_high_watermark",
        lambda replica, offset: replica.state.raise_high_watermark(offset),
    )


def ignore_min_insync_replicas(patch: Patch) -> None:
    """A leader that is alone in the ISR accepts acks=all.

    Would: acknowledge records on fewer disks than required.
    """
    patch.setattr(Leader, "is_under_min_isr", property(lambda self: False))


def never_shrink(patch: Patch) -> None:
    """A follower that stays behind stays in the ISR.

    Would: have every producer wait for a follower that hangs.
    """
    patch.setattr(isr_changes, "_lags", lambda leader, progress, now_ms: False)


def stop_cleanly_without_a_flush(patch: Patch) -> None:
    """A stopping broker reports a clean shutdown without a flush.

    Would: elect a broker that lost its page cache after its shutdown.
    """
    patch.setattr(PartitionDisk, "flush", lambda disk: None)


def keep_a_log_that_ends_before_the_leaders(patch: Patch) -> None:
    """A follower whose log ends before the leader's begins keeps it.

    Would: fetch what was deleted for ever.
    """

    def keeping(replica: Follower, event: Any) -> None:
        replica.asks_range = False

    patch.setattr(Follower, "range_answered", keeping)


def never_begin_within_a_batch(patch: Patch) -> None:
    """A follower whose leader's log begins within a batch does not take that batch.

    Would: never join the ISR after DeleteRecords.
    """
    patch.setattr(Follower, "_begins_within", lambda replica, event: False)


def begin_with_the_end_as_high_watermark(patch: Patch) -> None:
    """A broker that starts takes the end of its log for the high watermark.

    Would: serve consumers records that are not committed, and are truncated later.
    """
    real = PartitionDisk.open

    def bold(disk: PartitionDisk, *, was_closed: bool) -> Any:
        opened = real(disk, was_closed=was_closed)
        return replace(opened, high_watermark=opened.end_offset)

    patch.setattr(PartitionDisk, "open", bold)


def keep_what_the_leader_has_deleted(patch: Patch) -> None:
    """A follower does not delete records that its leader has deleted.

    Would: fill the disks of followers, and bring deleted records back with the next leader.
    """
    patch.setattr(Follower, "_delete_before", lambda replica, start_offset: None)


BY_BROKERS: tuple[Break, ...] = (
    count_the_proposed_isr_on_a_shrink,
    count_the_committed_isr_on_an_expansion,
    commit_before_it_is_written,
    fetch_before_it_is_written,
    serve_without_comparing_epochs,
    truncate_to_the_high_watermark,
    let_anyone_join,
    apply_older_metadata,
    answer_duplicates_at_once,
    forget_producers,
    drop_producers_when_elected,
    keep_producers_of_what_was_truncated,
    accept_every_answer,
    give_up_an_unanswered_proposal,
    acknowledge_when_deposed,
    read_behind_the_high_watermark,
    keep_the_isr_for_ever,
    lower_the_high_watermark,
    take_answers_to_other_fetches,
    take_answers_from_before_a_truncation,
    stop_cleanly_without_a_flush,
    keep_a_log_that_ends_before_the_leaders,
    never_begin_within_a_batch,
    begin_with_the_end_as_high_watermark,
    keep_what_the_leader_has_deleted,
)

BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        replicate_across_leader_epochs,
        "tests/unit/broker/test_follower.py::test_batches_of_an_epoch_above_the_requested_one_are_ignored",
    ),
    (
        let_join_before_the_epoch_begins,
        "tests/unit/broker/test_isr.py::test_no_follower_joins_before_it_has_the_records_of_earlier_leaders",
    ),
    (
        drop_the_epoch_of_an_empty_leadership,
        "tests/unit/broker/test_roles.py::test_leader_starts_its_epoch_before_the_first_append",
    ),
    (
        accept_the_leaders_high_watermark,
        "tests/unit/broker/test_follower.py::test_high_watermark_is_limited_to_the_log_end",
    ),
    (
        ignore_min_insync_replicas,
        "tests/unit/broker/test_leader.py::test_too_small_isr_rejects_acks_all",
    ),
    (
        never_shrink,
        "tests/unit/broker/test_isr.py::test_far_lagging_follower_is_removed_after_half_a_second",
    ),
)
