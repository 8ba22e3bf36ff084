"""Changes of configs reach the replicas of the topics that they concern (broker/assigned_replicas.py)."""

from pathlib import Path

import pytest

from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.records.metadata import ConfigRecord
from support.hosted_replicas import ME, HostedReplicas

pytestmark = pytest.mark.virtual_time


def change(
    hosted: HostedReplicas, resource_type: int, name: str, config: str, value: str | None
) -> None:
    record = ConfigRecord(resource_type=resource_type, resource_name=name, name=config, value=value)
    hosted.cluster.replay([record])
    hosted.replicas.apply(hosted.cluster.image)


async def test_settings_of_other_topics_are_not_computed(tmp_path: Path) -> None:
    """For thousands of replicas, that would hold the loop whenever a topic is created with a config."""
    hosted = HostedReplicas(tmp_path)
    hosted.create("other", (ME,), (ME,))
    hosted.create("t")
    others = [hosted.replica("other", number) for number in (0, 1)]
    before = [each.limits for each in others]
    change(hosted, TOPIC, "t", "max.message.bytes", "1234")
    assert hosted.replica("t").limits.max_message_bytes == 1234
    assert all(each.limits is limits for each, limits in zip(others, before, strict=True))
    change(hosted, TOPIC, "t", "max.message.bytes", None)
    assert hosted.replica("t").limits == before[0]
    hosted.close()


@pytest.mark.parametrize("broker", ["", str(ME)])
async def test_settings_of_the_broker_reach_all_topics(tmp_path: Path, broker: str) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t", (ME,), (ME,))
    hosted.create("own", (ME,), **{"max.message.bytes": "77"})
    change(hosted, BROKER, broker, "message.max.bytes", "1234")
    for number in (0, 1):
        assert hosted.replica("t", number).limits.max_message_bytes == 1234
    assert hosted.replica("own").limits.max_message_bytes == 77
    change(hosted, BROKER, broker, "log.retention.ms", "5")
    assert hosted.replica("t").log.settings.retention_ms == 5
    change(hosted, BROKER, broker, "min.insync.replicas", "3")
    assert hosted.replica("t").settings.min_insync_replicas == 3
    hosted.close()
