"""Rights on groups and topics: which offsets a broker shows to a principal that may describe a group, but not all of its topics."""

import asyncio
from pathlib import Path

import pytest

from quorum_node.coordinator.requests import Committed, TopicPartition
from quorum_node.protocol.broker_apis import OFFSET_FETCH
from quorum_node.protocol.offset_fetch import FetchedGroup, OffsetFetchRequest
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.group_api import GroupApi
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from quorum_node.server.listener.port import InboundRequest
from support.hosted_replicas import HostedReplicas, answered, broker_config

pytestmark = pytest.mark.virtual_time


class OfGroupAndOneTopic:
    """May describe group `g` and topic `mine`."""

    def allows(self, operation: AclOperation, resource: AclResource, name: str = "") -> bool:
        known = {(AclResource.GROUP, "g"), (AclResource.TOPIC, "mine")}
        return operation is AclOperation.DESCRIBE and (resource, name) in known


@pytest.mark.parametrize("version", [7, 8, 10])
async def test_offsets_of_all_topics_are_shown_without_those_that_the_caller_may_not_describe(
    tmp_path: Path, version: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    for name in ("mine", "secret", OFFSETS_TOPIC):
        hosted.create(name)
    settings = broker_config().groups.settings
    groups = GroupCoordinators(hosted.replicas, settings, 1000, BrokerEvents())
    groups.image_changed()
    await asyncio.sleep(1)
    (led,) = groups.led()
    offset = Committed(5, 0, "m", 0, -1, None)
    partitions = {TopicPartition(name, 0): offset for name in ("mine", "secret")}
    led.table.offsets.commit("g", partitions)
    body = (
        OffsetFetchRequest(group_id="g", topics=None)
        if version < 8
        else OffsetFetchRequest(groups=(FetchedGroup(group_id="g", topics=None),))
    )

    def ask(inbound: InboundRequest, body: Message) -> None:
        assert GroupApi(hosted.replicas, groups).handle(inbound, body, OfGroupAndOneTopic())

    answer = answered(ask, OFFSET_FETCH, body, version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    shown = [hosted.cluster.topic_id("mine") if version >= 10 else "mine"]
    assert [each.topic_id if version >= 10 else each.name for each in topics] == shown
    groups.close()
    hosted.close()
