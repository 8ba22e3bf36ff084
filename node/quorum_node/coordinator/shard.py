"""The groups of one partition of `__consumer_offsets`: the entry point of the coordinator's core. PURE.

Owns the table of groups, the offset requests, and the schedule of removals. Must not know clocks, logs or
connections: requests and events are the input, outputs are to be executed in order. A change takes effect once its
records are stored.
Source: KIP-62, KIP-211 (expiry of offsets), KIP-229, KIP-496; the rules of a stock coordinator.
"""

from collections.abc import Iterator, Mapping
from math import inf
from uuid import UUID

from quorum_node.coordinator.effects import Effects, Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.forgetting import Exists, Forgetting
from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.group_table import GroupTable
from quorum_node.coordinator.joining import Joining
from quorum_node.coordinator.membership import Membership, member_of
from quorum_node.coordinator.offsets import GroupRecords
from quorum_node.coordinator.outputs import Output
from quorum_node.coordinator.rebalance import Rebalance
from quorum_node.coordinator.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Done,
    Heartbeat,
    Join,
    Joined,
    Leave,
    PartitionsDone,
    Request,
    Sync,
)
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.coordinator.subscriptions import CONSUMER, subscribed_topics
from quorum_node.coordinator.timers import GroupTimers


class GroupShard:
    """`table`: state from the log."""

    def __init__(self, table: GroupTable, settings: GroupSettings) -> None:
        self.table = table
        self._settings = settings
        self._effects = Effects()
        self._rebalance = Rebalance(settings, self._effects)
        self._joining = Joining(settings, self._effects, self._rebalance)
        self._membership = Membership(self._effects, self._rebalance)
        self._forgetting = Forgetting(table, settings, self._effects)
        self._timers = GroupTimers()
        self._next_cleanup_ms = inf
        self._exists: Exists | None = None

    # -- inputs

    def begin(self, now: Now) -> Iterator[None]:
        """The log has been read: make one group after the other ready. Requests follow at the end, ends of transactions at once."""
        self._next_cleanup_ms = now.ms + self._settings.retention_check_ms
        for group in self.table.loaded(now):
            self._timers.plan(group)
            yield

    def step(self, request: Request, now: Now) -> list[Output]:
        """Handle one request."""
        group = self.table.groups.get(request.group_id)
        match request:
            case Join():
                self._join(request, group, now)
            case Sync():
                self._membership.sync(request, group, now)
            case Heartbeat():
                self._membership.heartbeat(request, group, now)
            case Leave():
                self._membership.leave(request, group, now)
            case CommitOffsets():
                self._commit(request, group, now)
            case DeleteOffsets():
                self._delete_offsets(request, group)
            case DeleteGroup():
                self._delete_group(request, group)
        if not isinstance(request, Heartbeat):
            self._timers.touch(request.group_id)
        return self._effects.take()

    def appended(self, append_id: int, error: GroupError, now: Now) -> list[Output]:
        """The records of an `Append` are stored, or it failed."""
        self._timers.touch(self._effects.appended(append_id, error, now))
        return self._effects.take()

    def expire(self, now: Now) -> list[Output] | None:
        """Handle the timers of one group that has expired ones; None if there is none. To be called often, until then."""
        group = self._timers.next_due(self.table.groups, now.ms)
        if group is None:
            return None
        self._rebalance.passed(group, now)
        self._forgetting.drop_if_unused(group)
        return self._effects.take()

    def clean(self, now: Now) -> list[Output] | None:
        """Do a piece of the removals that are due; None if there is none. To be called often, if `expire` has nothing left to do."""
        if now.ms >= self._next_cleanup_ms:
            self._forgetting.clean_up(now)
            if self._exists is not None:
                self._forgetting.topics_missing(self._exists)
            self._next_cleanup_ms = now.ms + self._settings.retention_check_ms
        return self._effects.take() if self._forgetting.go_on() else None

    def topics_deleted(self, topics: Mapping[str, UUID]) -> list[Output]:
        """Remove the offsets of deleted topics (name → id), most of them with the next pieces of `clean`."""
        self._forgetting.topics_deleted(topics)
        return self._effects.take()

    def topics_missing(self, exists: Exists) -> None:
        """Remove the offsets of topics that do not exist any more, now and with each later removal of expired offsets.

        Their deletion may have been missed, or their tombstones could not be stored.
        """
        self._exists = exists
        self._forgetting.topics_missing(exists)

    def marker_written(self, producer_id: int, *, commit: bool) -> None:
        """A producer's transaction ended in this partition's log."""
        self.table.offsets.end_transaction(producer_id, commit=commit)

    # -- JoinGroup

    def _join(self, join: Join, group: ClassicGroup | None, now: Now) -> None:
        if join.group_id in self.table.others:
            error = GroupError.INCONSISTENT_GROUP_PROTOCOL
        else:
            error = self._joining.refusal(join, group)
        if error is not GroupError.NONE:
            self._effects.reply(join.request_id, Joined(error, join.member_id))
            return
        if group is None:
            group = ClassicGroup(join.group_id, now.time_ms)
            names = tuple(each.name for each in join.protocols)
            if not group.supports(join.protocol_type, names):
                error = GroupError.INCONSISTENT_GROUP_PROTOCOL
                self._effects.reply(join.request_id, Joined(error, join.member_id))
                return
            self.table.groups[join.group_id] = group
        self._joining.join(join, group, now)

    # -- offsets

    def _commit(self, commit: CommitOffsets, group: ClassicGroup | None, now: Now) -> None:
        error = self._commit_error(commit, group, now)
        limit = self._settings.offset_metadata_max_bytes
        errors = {
            partition: GroupError.OFFSET_METADATA_TOO_LARGE
            for partition, each in commit.offsets.items()
            if each.metadata and len(each.metadata.encode()) > limit
        }
        taken = commit.offsets
        if errors:
            taken = {at: each for at, each in commit.offsets.items() if at not in errors}
        if error is not GroupError.NONE or not taken:
            self._effects.reply(commit.request_id, PartitionsDone(error, errors))
            return
        if group is None and commit.group_id not in self.table.others:
            self.table.groups[commit.group_id] = ClassicGroup(commit.group_id, now.time_ms)
        offsets, transaction = self.table.offsets, commit.transaction

        def stored(failure: GroupError, later: Now) -> None:
            offsets.end_storing(commit.group_id, taken)
            if failure is not GroupError.NONE:
                failed = GroupError.INVALID_COMMIT_OFFSET_SIZE
                is_size = failure is GroupError.UNKNOWN_SERVER_ERROR
                self._effects.reply(
                    commit.request_id, PartitionsDone(failed if is_size else failure, errors)
                )
                return
            if transaction is None:
                offsets.commit(commit.group_id, taken)
            else:
                offsets.commit_with(transaction.producer_id, commit.group_id, taken)
            self._effects.reply(commit.request_id, PartitionsDone(GroupError.NONE, errors))

        offsets.begin_storing(commit.group_id, taken)
        self._effects.append(GroupRecords(commit.group_id, taken), stored, transaction)

    def _commit_error(
        self, commit: CommitOffsets, group: ClassicGroup | None, now: Now
    ) -> GroupError:
        """Without a member, commits are permitted only for a group without members: from an administrator, or a
        consumer with manual assignment.
        """
        is_transactional = commit.transaction is not None
        if commit.group_id in self.table.others:
            return GroupError.UNKNOWN_MEMBER_ID
        if group is None and commit.generation >= 0:
            missing = GroupError.GROUP_ID_NOT_FOUND
            return missing if commit.knows_missing else GroupError.ILLEGAL_GENERATION
        if group is None:
            return GroupError.NONE
        if commit.generation < 0 and group.state is GroupState.EMPTY:
            return GroupError.NONE
        if commit.generation >= 0 or commit.member_id or commit.instance_id is not None:
            member = member_of(group, commit.member_id, commit.instance_id, commit.generation)
            if isinstance(member, GroupError):
                return member
            if member.joining is None and member.syncing is None:
                member.lives(now.ms)
        elif not is_transactional:
            return GroupError.UNKNOWN_MEMBER_ID
        if not is_transactional and group.state is GroupState.COMPLETING_REBALANCE:
            return GroupError.REBALANCE_IN_PROGRESS
        return GroupError.NONE

    def _delete_offsets(self, asked: DeleteOffsets, group: ClassicGroup | None) -> None:
        error, subscribed = GroupError.NONE, frozenset[str]()
        if group is None:
            error = GroupError.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            error = GroupError.NON_EMPTY_GROUP
        else:
            found = subscribed_topics(group)
            # During a rebalance the subscriptions are unknown: then all topics count as subscribed.
            subscribed = (
                frozenset(each.topic for each in asked.partitions) if found is None else found
            )
        errors = {
            each: GroupError.GROUP_SUBSCRIBED_TO_TOPIC if each.topic in subscribed else error
            for each in asked.partitions
        }
        known = self.table.offsets.of(asked.group_id)
        gone = tuple(
            each for each, why in errors.items() if why is GroupError.NONE and each in known
        )

        def stored(failure: GroupError) -> None:
            self._effects.reply(
                asked.request_id,
                PartitionsDone(error if failure is GroupError.NONE else failure, errors),
            )

        if error is not GroupError.NONE or not gone:
            stored(GroupError.NONE)
        else:
            self._forgetting.forget_offsets(asked.group_id, gone, stored)

    def _delete_group(self, asked: DeleteGroup, group: ClassicGroup | None) -> None:
        error = GroupError.NONE
        if asked.group_id in self.table.others:
            error = GroupError.NON_EMPTY_GROUP
        elif group is None:
            error = GroupError.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY:
            error = GroupError.NON_EMPTY_GROUP
        if error is not GroupError.NONE or group is None:
            self._effects.reply(asked.request_id, Done(error))
            return
        self._forgetting.forget_group(
            group, lambda failure: self._effects.reply(asked.request_id, Done(failure))
        )
