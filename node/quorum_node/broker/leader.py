"""The leader of a partition in one leader epoch. PURE.

Owns appends, the followers' progress, the high watermark and changes of the ISR. Must not know elections:
`partition.py` ends the leadership.
Source: the replication design V3, "Leader"; KIP-101, KIP-497, KIP-903 and KIP-966 as in a stock 4.x broker.
"""

from quorum_node.broker import fetch_serving, isr_changes
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    ConsumerFetched,
    FollowerFetched,
    IsrRefused,
    IsrTaken,
    Produced,
)
from quorum_node.broker.follower_progress import NEVER_MS, FollowerProgress
from quorum_node.broker.in_sync import InSync
from quorum_node.broker.outputs import (
    ProduceAnswered,
    ProposeIsr,
    ReadableMoved,
    RefuseFetch,
    ReportDivergence,
    ServeFetch,
)
from quorum_node.broker.producers import Duplicate
from quorum_node.broker.replica_state import ReplicaState
from quorum_node.broker.waiting_produces import ACKS_ALL, WaitingProduces
from quorum_node.image.partition import Partition

ACKS = (ACKS_ALL, 0, 1)


class Leader:
    """Starts with the present log; everything that earlier epochs left has to be replicated as well.

    `before`: the same leader in its previous epoch; its log was not truncated since. `first_epoch`: the first one of these.
    """

    __slots__ = (
        "epoch",
        "epoch_start_offset",
        "first_epoch",
        "followers",
        "in_sync",
        "state",
        "waiting",
    )

    def __init__(
        self,
        state: ReplicaState,
        partition: Partition,
        now_ms: float,
        before: "Leader | None" = None,
    ) -> None:
        self.state = state
        self.epoch = partition.leader_epoch
        self.first_epoch: int = self.epoch if before is None else before.first_epoch
        self.epoch_start_offset = state.log.end_offset
        self.in_sync = InSync(partition.isr, partition.partition_epoch, state.next_proposal_id)
        self.followers: dict[int, FollowerProgress] = {}
        self.waiting: WaitingProduces = WaitingProduces() if before is None else before.waiting
        self._know_replicas(partition, now_ms)
        state.enter_epoch(self.epoch)
        self.advance(now_ms)

    def metadata_changed(self, partition: Partition, now_ms: float) -> None:
        """New metadata of the same leader epoch: another ISR, or other replicas."""
        self.in_sync.committed_as(partition.isr, partition.partition_epoch)
        self._know_replicas(partition, now_ms)
        self.advance(now_ms)

    def elected_again(self, partition: Partition, now_ms: float) -> "Leader":
        """The same replica leads in a new leader epoch: as on a stock leader, requests go on waiting.

        Followers have to fetch again first: another replica may have led meanwhile, if several changes came at once.
        """
        self.state.next_proposal_id = self.in_sync.next_id
        return Leader(self.state, partition, now_ms, self)

    def resign(self, error: BrokerError) -> None:
        """Another replica leads, or none: waiting requests fail, so that clients ask there."""
        self.state.next_proposal_id = self.in_sync.next_id
        for request_id in self.waiting.all():
            self.state.emit(ProduceAnswered(request_id, error))

    # -- producers

    def produce(self, event: Produced, now_ms: float) -> None:
        """Append a batch, recognize a duplicate, or refuse the batch. Responds at once or later."""
        placed = self._place(event)
        if isinstance(placed, BrokerError):
            self.state.emit(ProduceAnswered(event.request_id, placed))
            return
        self.waiting.add(event, placed.base_offset, placed.end_offset, now_ms)
        # Alone in the ISR, or a duplicate of a replicated batch: there is nothing to wait for.
        self._answer_produces()

    def _place(self, event: Produced) -> Duplicate | BrokerError:
        if event.acks not in ACKS:
            return BrokerError.INVALID_REQUIRED_ACKS
        if event.acks == ACKS_ALL and self.is_under_min_isr:
            return BrokerError.NOT_ENOUGH_REPLICAS
        checked = self.state.producers.check(event.batch, event.guard)
        if checked is not BrokerError.NONE:
            return checked
        batch = event.batch.placed(self.state.log.end_offset, self.epoch)
        self.state.append((batch,))
        self.state.emit(ReadableMoved())
        return Duplicate(batch.base_offset, batch.end_offset)

    @property
    def low_watermark(self) -> int:
        """Lowest start offset of the logs of this replica and all live followers; UNKNOWN_OFFSET before their first fetch."""
        starts = [
            progress.log_start_offset
            for replica_id, progress in self.followers.items()
            if replica_id in self.state.active_brokers
        ]
        return min([self.state.log.start_offset, *starts])

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR is too small for acks=all. A partition with fewer replicas than min.insync.replicas needs all of them."""
        least = min(self.state.settings.min_insync_replicas, len(self.state.replicas))
        return len(self.in_sync.committed) < least

    def _answer_produces(self) -> None:
        log = self.state.log
        error = (
            BrokerError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            if self.is_under_min_isr
            else BrokerError.NONE
        )
        for request_id, base_offset in self.waiting.written(log.written_offset):
            self.state.emit(ProduceAnswered(request_id, BrokerError.NONE, base_offset))
        for request_id, base_offset in self.waiting.replicated(log.high_watermark):
            offset = base_offset if error is BrokerError.NONE else -1
            self.state.emit(ProduceAnswered(request_id, error, offset))

    # -- fetches

    def follower_fetched(self, event: FollowerFetched, now_ms: float) -> None:
        """Serve a follower, and update its progress."""
        answer = fetch_serving.for_follower(self, event)
        if isinstance(answer, RefuseFetch | ReportDivergence):
            self.state.emit(answer)
            return
        progress = self.followers[event.replica_id]
        if event.log_start_offset != progress.log_start_offset:
            self.state.emit(ReadableMoved())
        progress.fetched(
            event, self.state.log.end_offset, self.state.settings.replica_lag_max_bytes, now_ms
        )
        self.advance(now_ms)
        log = self.state.log
        self.state.emit(
            ServeFetch(
                event.request_id,
                event.fetch_offset,
                log.end_offset,
                log.high_watermark,
                log.start_offset,
            )
        )

    def consumer_fetched(self, event: ConsumerFetched) -> None:
        """Serve a consumer up to the high watermark."""
        self.state.emit(fetch_serving.for_consumer(self.state, event))

    # -- changes of the high watermark

    def written(self, now_ms: float) -> None:
        """The writer has written more."""
        self.advance(now_ms)

    def ticked(self, now_ms: float) -> None:
        """Handle timers: expire requests, remove followers from the ISR."""
        for request_id in self.waiting.overdue(now_ms):
            self.state.emit(ProduceAnswered(request_id, BrokerError.REQUEST_TIMED_OUT))
        self.advance(now_ms)

    def isr_taken(self, event: IsrTaken, now_ms: float) -> None:
        """The controller accepted a proposal. An outdated response changes nothing."""
        if event.leader_epoch != self.epoch:
            return
        if self.in_sync.taken(event.proposal_id, event.isr, event.partition_epoch):
            self.state.partition_epoch = event.partition_epoch
            self.advance(now_ms)

    def isr_refused(self, event: IsrRefused, now_ms: float) -> None:
        """Ask again, wait for metadata, or continue with the committed ISR."""
        again = self.in_sync.refused(event.proposal_id, event.error)
        if again is not None:
            self._ask(again.proposal_id, again.partition_epoch, again.members)
        else:
            # The next fetch or tick may propose the same. An immediate proposal would be refused for the same reason.
            self._commit(now_ms)

    def advance(self, now_ms: float) -> None:
        """Raise the high watermark as far as possible, answer waiting requests, and change the ISR if necessary."""
        self._commit(now_ms)
        members = isr_changes.wanted(self, now_ms)
        if members is not None:
            proposal = self.in_sync.propose(members, self.epoch)
            self._ask(proposal.proposal_id, proposal.partition_epoch, proposal.members)

    def _commit(self, now_ms: float) -> None:
        self.state.raise_high_watermark(self._replicated(now_ms))
        self._answer_produces()

    def _replicated(self, now_ms: float) -> int:
        """The offset below which all members of the maximal ISR have written everything.

        Also replicas that are about to join: otherwise the high watermark could keep moving ahead of them.
        """
        log, in_sync = self.state.log, self.in_sync
        if self.is_under_min_isr:
            return log.high_watermark
        lowest = log.written_offset
        for replica_id, progress in self.followers.items():
            if replica_id in in_sync.maximal or isr_changes.is_about_to_join(
                self, replica_id, progress, now_ms
            ):
                lowest = min(lowest, progress.end_offset)
        missing = in_sync.maximal - self.followers.keys() - {self.state.broker_id}
        return log.high_watermark if missing else lowest

    def _ask(
        self, proposal_id: int, partition_epoch: int, members: tuple[tuple[int, int], ...]
    ) -> None:
        self.state.emit(ProposeIsr(proposal_id, self.epoch, partition_epoch, members))

    def _know_replicas(self, partition: Partition, now_ms: float) -> None:
        """Members of the ISR count as caught up until they had time to fetch. Others have to fetch first."""
        others = [each for each in partition.replicas if each != self.state.broker_id]
        self.followers = {
            each: self.followers.get(each)
            or FollowerProgress(now_ms if each in partition.isr else NEVER_MS)
            for each in others
        }
