"""Rights on groups and topics: items that the caller may use are answered, the others are refused one by one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quorum_node.controller.authorization import CLUSTER_NAME, UNRESTRICTED, ListedRights
from quorum_node.protocol import broker_apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.delete_groups import DeleteGroupsRequest
from quorum_node.protocol.describe_groups import DescribeGroupsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_groups import ListGroupsRequest
from quorum_node.protocol.offset_commit import (
    CommittedPartition,
    CommittedTopic,
    OffsetCommitRequest,
)
from quorum_node.protocol.offset_delete import (
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteTopic,
)
from quorum_node.protocol.offset_fetch import (
    FetchedGroup,
    FetchedTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import OPERATIONS_OF, AclOperation, AclResource
from quorum_node.server.broker import group_rights
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.group_api import GroupApi
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from quorum_node.server.listener.port import InboundRequest
from support.hosted_replicas import HostedReplicas, answered, broker_config

pytestmark = pytest.mark.virtual_time
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NAMES = ("secret", "mine", "unknown", "mine too")
"""Topics `secret` and `mine` exist."""


class Limited:
    """May do everything with group `g` and with the topics `mine` and `mine too`."""

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        known = {(AclResource.GROUP, ("g",)), (AclResource.TOPIC, ("mine", "mine too"))}
        return any(resource is kind and name in names for kind, names in known)

    def allows_any(self, operation: AclOperation, resource: AclResource) -> bool:
        return resource in (AclResource.GROUP, AclResource.TOPIC)

    def operations(
        self, resource: AclResource, name: str = CLUSTER_NAME
    ) -> frozenset[AclOperation]:
        each = OPERATIONS_OF[resource]
        return each if self.allows(AclOperation.ALL, resource, name) else frozenset()


LIMITED: ListedRights = Limited()


class Coordinated:
    """A broker that coordinates groups `g` and `foreign`, each with offset 5 of `mine` and of `secret`."""

    def __init__(self, hosted: HostedReplicas, groups: GroupCoordinators) -> None:
        self.hosted = hosted
        self._api = GroupApi(hosted.replicas, groups)
        (self._led,) = groups.led()
        for group in ("g", "foreign"):
            self.ask(broker_apis.OFFSET_COMMIT, 9, commit(group, 5), UNRESTRICTED)

    def ask(self, api: Api, version: int, body: Message, rights: ListedRights = LIMITED) -> Any:
        """The answer to a caller."""

        def handle(inbound: InboundRequest, body: Message) -> None:
            refusal = group_rights.refusal_of(body, inbound.request.version, rights)
            if refusal is not None:
                inbound.reply_made(refusal)
            else:
                assert self._api.handle(inbound, body, rights)

        return answered(handle, api, body, version)

    def committed(self, group: str) -> dict[str, int]:
        """The offsets of a group by topic."""
        found = self._led.table.offsets.of(group)
        return {partition.topic: each.offset for partition, each in found.items()}


def commit(group: str, offset: int) -> OffsetCommitRequest:
    """Of all topics, by name."""
    partition = CommittedPartition(
        partition_index=0, committed_offset=offset, committed_metadata="m"
    )
    topics = tuple(CommittedTopic(name=each, partitions=(partition,)) for each in NAMES)
    return OffsetCommitRequest(group_id=group, member_id="", topics=topics)


@asynccontextmanager
async def coordinated(path: Path) -> AsyncIterator[Coordinated]:
    """The coordinator, when it has read its log."""
    hosted = HostedReplicas(path)
    for name in ("mine", "secret", OFFSETS_TOPIC):
        hosted.create(name)
    settings = broker_config().groups.settings
    groups = GroupCoordinators(hosted.replicas, settings, 1000, BrokerEvents())
    groups.image_changed()
    await asyncio.sleep(1)
    yield Coordinated(hosted, groups)
    groups.close()
    hosted.close()


async def test_offsets_are_committed_for_the_topics_that_the_caller_may_read(
    tmp_path: Path,
) -> None:
    expected = {"secret": TOPIC_DENIED, "mine": 0, "unknown": TOPIC_DENIED, "mine too": UNKNOWN}
    async with coordinated(tmp_path) as broker:
        for version in (2, 9):
            answer = broker.ask(broker_apis.OFFSET_COMMIT, version, commit("g", 7 + version))
            assert [each.name for each in answer.topics] == list(NAMES)
            assert {each.name: each.partitions[0].error_code for each in answer.topics} == expected
            assert broker.committed("g") == {"mine": 7 + version, "secret": 5}


async def test_offsets_by_topic_id_are_committed_for_the_topics_that_the_caller_may_read(
    tmp_path: Path,
) -> None:
    async with coordinated(tmp_path) as broker:
        partition = CommittedPartition(
            partition_index=0, committed_offset=9, committed_metadata=None
        )
        ids = [broker.hosted.cluster.topic_id(name) for name in ("secret", "mine")]
        topics = tuple(
            CommittedTopic(topic_id=each, partitions=(partition,))
            for each in (*ids, UUID(int=99), None)
        )
        body = OffsetCommitRequest(group_id="g", member_id="", topics=topics)
        answer = broker.ask(broker_apis.OFFSET_COMMIT, 10, body)
        found = [each.partitions[0].error_code for each in answer.topics]
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        assert found == [TOPIC_DENIED, 0, unknown, unknown]
        assert broker.committed("g") == {"mine": 9, "secret": 5}


async def test_offsets_of_a_group_that_the_caller_may_not_read_are_not_committed(
    tmp_path: Path,
) -> None:
    async with coordinated(tmp_path) as broker:
        answer = broker.ask(broker_apis.OFFSET_COMMIT, 9, commit("foreign", 9))
        assert {each.partitions[0].error_code for each in answer.topics} == {GROUP_DENIED}
        assert broker.committed("foreign") == {"mine": 5, "secret": 5}


@pytest.mark.parametrize("version", [1, 2, 7])
async def test_offsets_of_one_group_are_fetched_for_the_topics_that_the_caller_may_describe(
    tmp_path: Path, version: int
) -> None:
    async with coordinated(tmp_path) as broker:
        topics = tuple(OffsetFetchTopic(name=each, partition_indexes=(0,)) for each in NAMES)

        def fetch(group: str) -> Any:
            body = OffsetFetchRequest(group_id=group, topics=topics)
            return broker.ask(broker_apis.OFFSET_FETCH, version, body)

        parts = [(each.name, each.partitions[0]) for each in fetch("g").topics]
        found = [(name, each.error_code, each.committed_offset) for name, each in parts]
        assert found == [
            ("secret", TOPIC_DENIED, -1),
            ("mine", 0, 5),
            ("unknown", TOPIC_DENIED, -1),
            ("mine too", 0, -1),
        ]
        refused = fetch("foreign")
        if version >= 2:
            assert (refused.error_code, refused.topics) == (GROUP_DENIED, ())
        else:
            codes = {each.partitions[0].error_code for each in refused.topics}
            assert codes == {GROUP_DENIED}


@pytest.mark.parametrize("version", [8, 10])
async def test_offsets_are_fetched_for_the_groups_and_topics_that_the_caller_may_describe(
    tmp_path: Path, version: int
) -> None:
    async with coordinated(tmp_path) as broker:
        topic_id = broker.hosted.cluster.topic_id if version >= 10 else lambda name: None
        topics = tuple(
            FetchedTopic(name=each, topic_id=topic_id(each), partition_indexes=(0,))
            for each in ("secret", "mine")
        )
        groups = tuple(FetchedGroup(group_id=each, topics=topics) for each in ("foreign", "g"))
        answer = broker.ask(broker_apis.OFFSET_FETCH, version, OffsetFetchRequest(groups=groups))
        foreign, mine = answer.groups
        assert (foreign.group_id, foreign.error_code, foreign.topics) == (
            "foreign",
            GROUP_DENIED,
            (),
        )
        parts = [each.partitions[0] for each in mine.topics]
        found = [(each.error_code, each.committed_offset) for each in parts]
        assert (mine.group_id, found) == ("g", [(TOPIC_DENIED, -1), (0, 5)])


@pytest.mark.parametrize("version", [7, 8, 10])
async def test_offsets_of_all_topics_are_shown_without_those_that_the_caller_may_not_describe(
    tmp_path: Path, version: int
) -> None:
    async with coordinated(tmp_path) as broker:
        body = (
            OffsetFetchRequest(group_id="g", topics=None)
            if version < 8
            else OffsetFetchRequest(groups=(FetchedGroup(group_id="g", topics=None),))
        )
        answer = broker.ask(broker_apis.OFFSET_FETCH, version, body)
        topics = answer.topics if version < 8 else answer.groups[0].topics
        shown = [broker.hosted.cluster.topic_id("mine") if version >= 10 else "mine"]
        assert [each.topic_id if version >= 10 else each.name for each in topics] == shown


async def test_offsets_are_deleted_for_the_topics_that_the_caller_may_read(tmp_path: Path) -> None:
    async with coordinated(tmp_path) as broker:
        partition = OffsetDeletePartition(partition_index=0)
        topics = tuple(OffsetDeleteTopic(name=each, partitions=(partition,)) for each in NAMES)
        answer = broker.ask(
            broker_apis.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id="g", topics=topics)
        )
        found = [(each.name, each.partitions[0].error_code) for each in answer.topics]
        expected = [TOPIC_DENIED, 0, TOPIC_DENIED, UNKNOWN]
        assert (answer.error_code, found) == (0, list(zip(NAMES, expected, strict=True)))
        assert broker.committed("g") == {"secret": 5}
        foreign = OffsetDeleteRequest(group_id="foreign", topics=topics)
        refused = broker.ask(broker_apis.OFFSET_DELETE, 0, foreign)
        assert (refused.error_code, refused.topics) == (GROUP_DENIED, ())
        assert broker.committed("foreign") == {"mine": 5, "secret": 5}


async def test_groups_are_described_listed_and_deleted_one_by_one(tmp_path: Path) -> None:
    async with coordinated(tmp_path) as broker:
        names = ("foreign", "g", "there is none")
        described = broker.ask(broker_apis.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=names))
        found = [(each.group_id, each.error_code, each.group_state) for each in described.groups]
        assert found == [
            ("foreign", GROUP_DENIED, ""),
            ("g", 0, "Empty"),
            ("there is none", GROUP_DENIED, ""),
        ]
        listed = broker.ask(broker_apis.LIST_GROUPS, 5, ListGroupsRequest())
        assert [each.group_id for each in listed.groups] == ["g"]
        everything = broker.ask(broker_apis.LIST_GROUPS, 5, ListGroupsRequest(), UNRESTRICTED)
        assert {each.group_id for each in everything.groups} == {"g", "foreign"}
        deletion = DeleteGroupsRequest(groups_names=names)
        deleted = broker.ask(broker_apis.DELETE_GROUPS, 2, deletion)
        found = [(each.group_id, each.error_code) for each in deleted.results]
        assert found == [("foreign", GROUP_DENIED), ("g", 0), ("there is none", GROUP_DENIED)]
        assert (broker.committed("g"), broker.committed("foreign")) == (
            {},
            {"mine": 5, "secret": 5},
        )
