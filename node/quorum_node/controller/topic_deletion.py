"""DeleteTopics, by name or by id. PURE.

Owns the checks. A RemoveTopicRecord removes partitions and configs as well. A topic can be deleted
and created again safely: the new one has a new id, so a broker that was offline does not mistake
old partitions for new ones (KV3-03).
Source: KIP-4, KIP-516.
"""

from collections import Counter
from uuid import UUID

from quorum_node.controller.authorization import AclOperation, AclResource
from quorum_node.controller.decision import Decision
from quorum_node.controller.problem import Problem
from quorum_node.controller.view import View
from quorum_node.protocol.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import RemoveTopicRecord


def delete_topics(view: View, request: DeleteTopicsRequest) -> Decision:
    """Every topic gets its own result; all permitted deletions are made together."""
    asked = _asked(request)
    repeated = {state for state, times in Counter(asked).items() if times > 1}
    ids = Counter(
        topic_id
        for state in dict.fromkeys(asked)
        if state not in repeated and (topic_id := _find(view, state)) is not None
    )
    records, results = [], []
    may_delete_all = view.allows(AclOperation.DELETE, AclResource.CLUSTER)

    def may(operation: AclOperation, name: str) -> bool:
        return may_delete_all or view.allows(operation, AclResource.TOPIC, name)

    for state in dict.fromkeys(asked):
        topic_id = _find(view, state)
        problem = _REPEATED if state in repeated else _problem(state, topic_id)
        if problem is not None and problem.code is ErrorCode.INVALID_REQUEST:
            results.append(_result(state, problem))
            continue
        topic = view.image.topics.get(topic_id) if topic_id is not None else None
        named = state
        if topic is not None:
            named = DeleteTopicState(name=topic.name, topic_id=topic.topic_id)
        may_not = named.name is not None and not may(AclOperation.DELETE, named.name)
        if may_not and not may(AclOperation.DESCRIBE, named.name or ""):
            # Without DESCRIBE on the topic the response must reveal neither its existence nor its
            # name.
            problem, named = _lacks_delete(view), state
        elif may_not:
            problem = problem or _lacks_delete(view)
            named = state if state.name is not None else named
        elif topic_id is not None and ids[topic_id] > 1:
            problem, named = _REPEATED, state
        elif topic is not None:
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        results.append(_result(named, problem))
    return Decision(tuple(records), DeleteTopicsResponse(responses=tuple(results)))


_REPEATED = Problem(ErrorCode.INVALID_REQUEST, "the topic is in the request more than once")


def _lacks_delete(view: View) -> Problem:
    text = f"{view.caller.principal} lacks DELETE on the topic"
    return Problem(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)


def refuse_delete_topics(
    request: DeleteTopicsRequest, error: ErrorCode, text: str
) -> DeleteTopicsResponse:
    """The same answer for every topic."""
    problem = Problem(error, text)
    return DeleteTopicsResponse(
        responses=tuple(_result(state, problem) for state in dict.fromkeys(_asked(request)))
    )


def _asked(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]


def _find(view: View, state: DeleteTopicState) -> UUID | None:
    """The id of an existing topic."""
    if state.name is not None:
        topic = view.image.topics.named(state.name)
        return topic.topic_id if topic is not None and state.topic_id is None else None
    if state.topic_id is None or view.image.topics.get(state.topic_id) is None:
        return None
    return state.topic_id


def _problem(state: DeleteTopicState, found: UUID | None) -> Problem | None:
    if state.name is None and state.topic_id is None:
        return Problem(
            ErrorCode.INVALID_REQUEST, "the request names a topic by neither name nor id"
        )
    if state.name is not None and state.topic_id is not None:
        return Problem(
            ErrorCode.INVALID_REQUEST, "a topic can be named by its name or by its id, not by both"
        )
    if found is not None:
        return None
    if state.name is None:
        return Problem(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {state.topic_id}")
    return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {state.name}")


def _result(state: DeleteTopicState, problem: Problem | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name,
        topic_id=state.topic_id,
        error_code=problem.code if problem is not None else ErrorCode.NONE,
        error_message=problem.text if problem is not None else None,
    )
