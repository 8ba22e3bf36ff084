"""A group coordinator with a log in memory and clocks that a test moves; records requests, answers and appends."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from quorum_node.coordinator.effects import Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import ClassicGroup
from quorum_node.coordinator.group_table import NO_PRODUCER, GroupTable
from quorum_node.coordinator.members import Protocol
from quorum_node.coordinator.outputs import Append, Output, Reply
from quorum_node.coordinator.requests import (
    Answer,
    CommitOffsets,
    Committed,
    DeleteGroup,
    Done,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    PartitionsDone,
    Request,
    Sync,
    Synced,
    TopicPartition,
    Transaction,
)
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.coordinator.shard import GroupShard
from quorum_node.records.group_records import (
    NO_EPOCH,
    NO_TIME,
    GroupRecord,
    OffsetRecord,
    group_record,
    offset_record,
    read_group_record,
)

GROUP = "group"
TOPIC = "topic"
TOPIC_ID = UUID(int=1)
BEGIN_MS = 1_700_000_000_000
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\5topic" + b"\0\0\0\0"
"""ConsumerProtocolSubscription 0: one topic."""


class GroupEnv:
    """`stores`: appends are stored at once; otherwise they wait in `appends` for `store`."""

    def __init__(self, settings: GroupSettings | None = None, *, stores: bool = True) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0)
        self.shard = GroupShard(GroupTable(), self.settings)
        self.ms = 0.0
        for _ in self.shard.begin(self.now):
            raise AssertionError("there is no group")
        self.stores = stores
        self.appends: list[Append] = []
        self.log: list[tuple[bytes, bytes | None, int]] = []
        self.answers: dict[int, Answer] = {}
        self._last_id = 0

    @property
    def now(self) -> Now:
        """Both clocks."""
        return Now(self.ms, BEGIN_MS + int(self.ms))

    @property
    def group(self) -> ClassicGroup:
        """The group that most tests use."""
        return self.shard.table.groups[GROUP]

    def offset(self, partition: int = 0, group: str = GROUP) -> int | None:
        """How far the group has read."""
        found = self.shard.table.offsets.of(group).get(TopicPartition(TOPIC, partition))
        return None if found is None else found.offset

    # -- requests

    def ask(self, request: Request) -> int:
        """Returns the id of the request, by which `answers` has the answer."""
        self._last_id += 1
        self._take(self.shard.step(replace(request, request_id=self._last_id), self.now))
        return self._last_id

    def join(self, member: str = "", **fields: Any) -> int:
        """As a consumer."""
        given: dict[str, Any] = {
            "group_id": GROUP,
            "instance_id": None,
            "client_id": "client",
            "client_host": "/here",
            "protocol_type": "consumer",
            "protocols": (Protocol("range", SUBSCRIPTION),),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "new_id": f"member-{self._last_id + 1}",
            **fields,
        }
        return self.ask(Join(request_id=0, member_id=member, **given))

    def joined(self, request_id: int) -> Joined:
        """The answer to a join."""
        answer = self.answers[request_id]
        assert isinstance(answer, Joined)
        return answer

    def enter(self, **fields: Any) -> tuple[int, str]:
        """A new member, which comes back with its id: (request, member id)."""
        refused = self.joined(self.join(**fields))
        assert refused.error is GroupError.MEMBER_ID_REQUIRED
        return self.join(refused.member_id, **fields), refused.member_id

    def sync(
        self,
        member: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        **fields: Any,
    ) -> int:
        """As a consumer; with assignments as the leader."""
        given = {"instance_id": None, "protocol_type": "consumer", "protocol": "range", **fields}
        return self.ask(
            Sync(
                request_id=0,
                group_id=GROUP,
                member_id=member,
                generation=generation,
                assignments=assignments or {},
                **given,
            )
        )

    def synced(self, request_id: int) -> Synced:
        """The answer to a sync."""
        answer = self.answers[request_id]
        assert isinstance(answer, Synced)
        return answer

    def stable(self, count: int = 1, **fields: Any) -> list[str]:
        """A group of so many members, each with its number as its assignment; the first one leads."""
        entered = [self.enter(**fields) for _ in range(count)]
        members = [member for _, member in entered]
        # The first members were in a generation of their own: they get the error to rejoin.
        requests = dict(zip(members, (request for request, _ in entered), strict=True))
        for member in members:
            if count > 1 and requests[member] in self.answers:
                requests[member] = self.join(member, **fields)
        answers = [self.joined(requests[member]) for member in members]
        generation = answers[-1].generation
        assert {(each.error, each.generation) for each in answers} == {
            (GroupError.NONE, generation)
        }
        leader = answers[0].leader_id
        for member in members:
            given = {each: b"%d" % number for number, each in enumerate(members)}
            self.sync(member, generation, given if member == leader else None)
        return members

    def heartbeat(self, member: str, generation: int, instance: str | None = None) -> GroupError:
        """The error in the answer."""
        answer = self.answers[self.ask(Heartbeat(0, GROUP, member, instance, generation))]
        assert isinstance(answer, Done)
        return answer.error

    def leave(self, *members: tuple[str, str | None]) -> tuple[GroupError, ...]:
        """The answer to each."""
        answer = self.answers[self.ask(Leave(0, GROUP, members))]
        assert isinstance(answer, Left)
        return answer.errors

    def commit(
        self,
        offset: int,
        member: str = "",
        generation: int = -1,
        *,
        partition: int = 0,
        group: str = GROUP,
        transaction: Transaction | None = None,
        metadata: str = "",
        instance: str | None = None,
    ) -> int:
        """One offset."""
        committed = Committed(offset, NO_EPOCH, metadata, self.now.time_ms, NO_TIME, None)
        offsets = {TopicPartition(TOPIC, partition): committed}
        return self.ask(CommitOffsets(0, group, member, instance, generation, offsets, transaction))

    def committed(self, request_id: int) -> GroupError:
        """The outcome of a commit."""
        answer = self.answers[request_id]
        assert isinstance(answer, PartitionsDone)
        return next(
            (
                each
                for each in (answer.error, *answer.errors.values())
                if each is not GroupError.NONE
            ),
            GroupError.NONE,
        )

    def delete(self, group: str = GROUP) -> GroupError:
        """Of the whole group."""
        answer = self.answers[self.ask(DeleteGroup(0, group))]
        assert isinstance(answer, Done)
        return answer.error

    # -- time and log

    def wait(self, ms: float) -> None:
        """Advance the time, in steps in which everything that is due is done."""
        end = self.ms + ms
        while self.ms < end:
            self.ms = min(end, self.ms + max(ms / 50, 10))
            self.work()

    def work(self) -> None:
        """Do all that is due."""
        for piece in (self.shard.expire, self.shard.clean):
            while (outputs := piece(self.now)) is not None:
                self._take(outputs)

    def store(self, error: GroupError = GroupError.NONE) -> None:
        """The oldest append is stored, or fails."""
        append = self.appends.pop(0)
        if error is GroupError.NONE:
            self._write(append)
        self._take(self.shard.appended(append.append_id, error, self.now))

    def delete_topic(self, topic_id: UUID = TOPIC_ID) -> None:
        """The topic is deleted."""
        self._take(self.shard.topics_deleted({TOPIC: topic_id, "other": UUID(int=2)}))
        self.work()

    def taken_over(self) -> "GroupEnv":
        """Another coordinator, which has read the log."""
        other = GroupEnv(self.settings, stores=self.stores)
        other.ms = self.ms
        other._last_id = self._last_id  # an id is never given to two members
        other.log = list(self.log)
        for key, value, producer_id in self.log:
            other.shard.table.replay(read_group_record(key, value), other.now, producer_id)
        for _ in other.shard.begin(other.now):
            """One group is ready."""
        return other

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Reply):
                assert output.request_id not in self.answers, "answered once"
                self.answers[output.request_id] = output.answer
            else:
                self.appends.append(output)
        while self.stores and self.appends:
            self.store()

    def _write(self, append: Append) -> None:
        producer_id = append.transaction.producer_id if append.transaction else NO_PRODUCER
        for each in append.records:
            record = _encoded(each)
            self.log.append((*record, producer_id))


def _encoded(record: OffsetRecord | GroupRecord) -> tuple[bytes, bytes | None]:
    made = (
        offset_record(record.key, record.value)
        if isinstance(record, OffsetRecord)
        else group_record(record.key, record.value)
    )
    assert made.key is not None
    return made.key, made.value
