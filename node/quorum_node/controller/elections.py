"""ElectLeaders, and the two automatic elections: preferred leaders, and unclean leaders. PURE.

Owns which election is run when. The choice of the leader is in `partition_leader.py`.
Source: KIP-183, KIP-460; `auto.leader.rebalance.enable`, `unclean.leader.election.enable` (KIP-966
on automatic unclean elections).
"""

from collections.abc import Iterable, Iterator

from quorum_node.controller.decision import Decision
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_leader import Election
from quorum_node.controller.partition_rules import Judge
from quorum_node.controller.problem import Problem
from quorum_node.controller.topics import MAX_RECORDS
from quorum_node.controller.view import View
from quorum_node.image.partition import Partition
from quorum_node.image.topics import PartitionKey, Topic
from quorum_node.protocol.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionElection,
    ReplicaElectionResult,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import NO_LEADER, PartitionChangeRecord

MAX_ELECTIONS_AT_ONCE = 1_000
"""Maximum number of automatic elections in one step."""
MAX_LOOKS = 5_000
"""Maximum number of partitions that are examined in one step. A broker that is away for long is the preferred leader of many."""

_KINDS = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.UNCLEAN}


def elect_leaders(view: View, request: ElectLeadersRequest) -> Decision:
    """Every partition gets its own result and is changed independently."""
    kind = (
        _KINDS.get(ElectionType(request.election_type)) if request.election_type in (0, 1) else None
    )
    if kind is None:
        code = ErrorCode.INVALID_REQUEST
        return Decision(answer=ElectLeadersResponse(error_code=code, replica_election_results=()))
    records: list[PartitionChangeRecord] = []
    results = []
    judge = Judge(view)
    requested_for_all = request.topic_partitions is None
    for name, partition_ids in _asked(view, request):
        topic = view.image.topics.named(name)
        outcomes = []
        for partition_id in partition_ids:
            made = _elect(judge, name, topic, partition_id, kind, len(records))
            if isinstance(made, PartitionChangeRecord):
                records.append(made)
            elif requested_for_all and made.code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            outcomes.append(_outcome(partition_id, made))
        results.append(ReplicaElectionResult(topic=name, partition_result=tuple(outcomes)))
    answer = ElectLeadersResponse(replica_election_results=tuple(results))
    return Decision(tuple(records), answer, atomic=False)


def refuse_elect_leaders(
    request: ElectLeadersRequest, error: ErrorCode, text: str
) -> ElectLeadersResponse:
    """The same answer for the whole request and for every partition."""
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=each.topic,
                partition_result=tuple(
                    _outcome(partition_id, Problem(error, text)) for partition_id in each.partitions
                ),
            )
            for each in request.topic_partitions or ()
        ),
    )


def balance_some(view: View, keys: Iterator[PartitionKey]) -> tuple[Decision, bool]:
    """Return leadership to preferred replicas that are available again, of a bounded number of partitions.

    `keys`: partitions that another replica leads, as of an earlier image. True when it is exhausted.
    """
    records: list[PartitionChangeRecord] = []
    judge = Judge(view)
    for _ in range(MAX_LOOKS):
        key = next(keys, None)
        if key is None:
            return Decision(tuple(records), atomic=False), True
        topic = view.image.topics.get(key.topic_id)
        partition = None if topic is None else topic.partitions.get(key.partition_id)
        if topic is None or partition is None or not _may_prefer(judge, partition):
            continue
        record = _change(judge, topic, key.partition_id, Election.PREFERRED)
        if record is not None and record.leader >= 0:
            records.append(record)
            if len(records) == MAX_ELECTIONS_AT_ONCE:
                break
    return Decision(tuple(records), atomic=False), False


def _may_prefer(judge: Judge, partition: Partition) -> bool:
    """Whether the preferred replica may be electable, at a small part of the cost of an election."""
    preferred = partition.preferred_leader
    return preferred in partition.isr and judge.is_active(preferred)


def _asked(view: View, request: ElectLeadersRequest) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is not None:
        for each in request.topic_partitions:
            yield each.topic, each.partitions
        return
    for topic in view.image.topics:
        yield topic.name, sorted(topic.partitions)


def _elect(
    judge: Judge, name: str, topic: Topic | None, partition_id: int, kind: Election, decided: int
) -> PartitionChangeRecord | Problem:
    partition = None if topic is None else topic.partitions.get(partition_id)
    if topic is None or partition is None:
        text = f"there is no partition {name}-{partition_id}"
        return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if kind is Election.PREFERRED and partition.leader == partition.preferred_leader:
        text = f"the preferred replica {partition.leader} is the leader already"
        return Problem(ErrorCode.ELECTION_NOT_NEEDED, text)
    if kind is Election.UNCLEAN and partition.leader != NO_LEADER:
        text = f"broker {partition.leader} is the leader: an unclean election is only possible without a leader"
        return Problem(ErrorCode.ELECTION_NOT_NEEDED, text)
    if decided == MAX_RECORDS:
        text = f"one request changes at most {MAX_RECORDS} partitions: ask for the rest again"
        return Problem(ErrorCode.POLICY_VIOLATION, text)
    needless = (
        kind is Election.PREFERRED and partition.has_leader and not _may_prefer(judge, partition)
    )
    record = None if needless else _change(judge, topic, partition_id, kind)
    if record is not None:
        return record
    if kind is Election.PREFERRED:
        text = f"the preferred replica {partition.preferred_leader} is not alive or not in the ISR"
        return Problem(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    return Problem(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive")


def _change(
    judge: Judge, topic: Topic, partition_id: int, kind: Election
) -> PartitionChangeRecord | None:
    partition = topic.partitions[partition_id]
    given = judge.circumstances(topic.name, partition, kind)
    return change_partition(topic.topic_id, partition_id, partition, Wanted(), given)


def _outcome(partition_id: int, made: PartitionChangeRecord | Problem) -> PartitionElection:
    if isinstance(made, Problem):
        return PartitionElection(
            partition_id=partition_id, error_code=made.code, error_message=made.text
        )
    return PartitionElection(partition_id=partition_id, error_code=ErrorCode.NONE)
