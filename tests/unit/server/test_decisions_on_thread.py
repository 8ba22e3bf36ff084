"""Decisions that take long are made on a thread: they stand only if the state is still the one that they were made on."""

import threading

import pytest

from quorum_node.protocol.acls import AclCreation, CreateAclsRequest, DescribeAclsRequest
from quorum_node.protocol.create_topics import CreatableTopic, CreateTopicsRequest
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialUpsertion,
    UserName,
)
from quorum_node.records.metadata import RemoveTopicRecord, TopicRecord
from support.broker_requests import heartbeat, registration
from support.controller_env import Env

MANY = 300


async def env_with_broker() -> Env:
    """An active controller with an unfenced broker."""
    env = Env(maintained=True)
    await env.lead()
    await env.commit()
    epoch = (await env.do(registration(7))).broker_epoch
    await env.do(heartbeat(7, epoch, epoch))
    env.decided_on.clear()
    return env


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=(topic,))


def deletion(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1000)


async def test_long_decision_is_made_and_planned_on_a_thread() -> None:
    env = await env_with_broker()
    asked = env.ask(creation("t"), takes_long=True)
    asked.work()
    assert env.decided_on != []
    assert threading.current_thread() not in env.decided_on
    assert env.controller.in_flight == 0
    asked.work()
    assert env.controller.in_flight == 1
    await env.commit()
    assert asked.answer.topics[0].error_code == ErrorCode.NONE
    assert env.speculative > 0, "replay takes over the image that the thread has made"
    assert env.committed.image.topics.named("t") is not None


async def test_decision_is_made_again_if_others_have_changed_the_state() -> None:
    env = await env_with_broker()
    first, second = (env.ask(creation("t"), takes_long=True) for _ in range(2))
    first.work()
    second.work()
    first.work()
    second.work()
    records = await env.commit()
    assert sum(isinstance(each, TopicRecord) for each in records) == 1
    assert first.answer.topics[0].error_code == ErrorCode.NONE
    assert second.answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert env.decided_on[-1] is not threading.current_thread(), "the refusal needs no new id"


async def test_decision_that_changes_nothing_stands_whatever_others_change() -> None:
    env = await env_with_broker()
    asked = env.ask(deletion("t"), takes_long=True)
    asked.work()
    await env.do(creation("t"))
    asked.work()
    records = await env.commit()
    assert not any(isinstance(each, RemoveTopicRecord) for each in records)
    assert asked.answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_short_request_about_many_entries_takes_long() -> None:
    env = Env(has_authorizer=True)
    await env.lead()
    await env.commit()
    everything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    few = env.ask(everything)
    assert not few.takes_long
    entries = (
        AclCreation(
            resource_type=2,
            resource_name=f"topic-{each}",
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        for each in range(MANY)
    )
    await env.do(CreateAclsRequest(creations=tuple(entries)))
    many = env.ask(everything)
    assert many.takes_long
    many.work()
    many.work()
    assert len(many.answer.resources) == MANY


async def test_short_request_about_many_users_takes_long() -> None:
    env = Env()
    await env.lead()
    await env.commit()
    upserted = (
        ScramCredentialUpsertion(
            name=f"user-{each}", mechanism=1, iterations=4096, salt=b"s", salted_password=bytes(32)
        )
        for each in range(MANY)
    )
    await env.do(AlterUserScramCredentialsRequest(deletions=(), upsertions=tuple(upserted)))
    one = (UserName(name="user-7"),)
    named = env.ask(DescribeUserScramCredentialsRequest(users=one))
    assert not named.takes_long
    assert [each.user for each in named.answer.results] == ["user-7"]
    everybody = env.ask(DescribeUserScramCredentialsRequest(users=None))
    assert everybody.takes_long
    everybody.work()
    everybody.work()
    assert len(everybody.answer.results) == MANY


async def test_decision_of_a_lost_leadership_is_not_carried_out() -> None:
    env = await env_with_broker()
    asked = env.ask(creation("t"), takes_long=True)
    asked.work()
    await env.lose()
    asked.work()
    assert asked.answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("request_of", [creation, deletion])
async def test_decision_of_an_earlier_tenure_is_made_again(request_of) -> None:  # type: ignore[no-untyped-def]
    env = await env_with_broker()
    before = env.ask(creation("t"))
    asked = env.ask(request_of("t"), takes_long=True)
    asked.work()
    await env.lose()
    await env.lead(2)
    await env.commit()
    asked.work()
    await env.commit()
    assert before.answer.topics[0].error_code != ErrorCode.NONE
    if request_of is creation:
        assert asked.answer.topics[0].error_code == ErrorCode.NONE
    else:
        assert asked.answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
