"""ElectLeaders, and the two automatic elections: preferred leaders, and unclean leaders. PURE.

Owns which election is run when. The choice of the leader is in `partition_leader.py`.
Source: KIP-183, KIP-460; `auto.leader.rebalance.enable`, `unclean.leader.election.enable` (KIP-966
on automatic unclean elections).
"""

from collections.abc import Iterable, Iterator

from quorum_node.controller.decision import Decision
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_leader import Election
from quorum_node.controller.partition_rules import circumstances
from quorum_node.controller.problem import Problem
from quorum_node.controller.topics import MAX_RECORDS
from quorum_node.controller.view import View
from quorum_node.image.topics import Topic
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
    requested_for_all = request.topic_partitions is None
    for name, partition_ids in _asked(view, request):
        topic = view.image.topics.named(name)
        outcomes = []
        for partition_id in partition_ids:
            made = _elect(view, name, topic, partition_id, kind, len(records))
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


def balance_leaders(view: View) -> Decision:
    """Return leadership to preferred replicas that are available again. Repeat until nothing is decided."""
    records: list[PartitionChangeRecord] = []
    for topic_id, partition_id in view.image.topics.not_preferred():
        topic = view.image.topics.get(topic_id)
        assert topic is not None
        record = _change(view, topic, partition_id, Election.PREFERRED)
        if record is not None and record.leader >= 0:
            records.append(record)
            if len(records) == MAX_ELECTIONS_AT_ONCE:
                break
    return Decision(tuple(records), atomic=False)


def _asked(view: View, request: ElectLeadersRequest) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is not None:
        for each in request.topic_partitions:
            yield each.topic, each.partitions
        return
    for topic in view.image.topics:
        yield topic.name, sorted(topic.partitions)


def _elect(
    view: View, name: str, topic: Topic | None, partition_id: int, kind: Election, decided: int
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
    record = _change(view, topic, partition_id, kind)
    if record is not None:
        return record
    if kind is Election.PREFERRED:
        text = f"the preferred replica {partition.preferred_leader} is not alive or not in the ISR"
        return Problem(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    return Problem(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive")


def _change(
    view: View, topic: Topic, partition_id: int, kind: Election
) -> PartitionChangeRecord | None:
    partition = topic.partitions[partition_id]
    given = circumstances(view, topic.name, partition, kind)
    return change_partition(topic.topic_id, partition_id, partition, Wanted(), given)


def _outcome(partition_id: int, made: PartitionChangeRecord | Problem) -> PartitionElection:
    if isinstance(made, Problem):
        return PartitionElection(
            partition_id=partition_id, error_code=made.code, error_message=made.text
        )
    return PartitionElection(partition_id=partition_id, error_code=ErrorCode.NONE)
