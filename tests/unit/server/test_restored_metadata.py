"""Metadata that was restored without its newest changes: leader epochs of partitions have gone back.

In the epochs that it gives again, a leader writes other records than the ones in this log, and by offset and epoch they look equal.
"""

import asyncio
from pathlib import Path

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import LOST, PartitionChangeRecord
from quorum_node.server.broker.topic_lookup import look_up
from support.controlled_cluster import ControlledCluster
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas, produce

pytestmark = pytest.mark.virtual_time


def lead_on(cluster: ControlledCluster, name: str) -> None:
    """In the next leader epoch, this broker leads."""
    topic_id = cluster.topic_id(name)
    cluster.replay([PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=ME)])


def with_later_epoch(
    root: Path, replicas: tuple[int, int] = (ME, OTHER)
) -> tuple[ControlledCluster, ClusterImage]:
    """The log of `t` ends with a record of leader epoch 1, in which this broker led; the log of `u` with one of epoch 0.

    The image is of epoch 0, in which the first of `replicas` leads `t`.
    """
    hosted = HostedReplicas(root)
    hosted.register_directories()
    data = data_batch(0).data
    assert isinstance(data, bytes)
    assert produce(hosted.create("u", (ME, OTHER)), data)
    hosted.create("t", replicas)
    backup = hosted.cluster.image
    lead_on(hosted.cluster, "t")
    hosted.replicas.apply(hosted.cluster.image)
    assert produce(hosted.replica("t"), data)
    hosted.close()
    return hosted.cluster, backup


@pytest.mark.parametrize("replicas", [(ME, OTHER), (OTHER, ME)])
async def test_log_with_later_leader_epochs_is_kept_and_not_used(
    tmp_path: Path, replicas: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, backup = with_later_epoch(tmp_path, replicas)
    cluster.image = backup
    before = (tmp_path / "t-0" / f"{0:020d}.log").read_bytes()
    hosted = HostedReplicas(tmp_path, cluster)
    assert hosted.replicas.replica(cluster.topic_id("t"), 0) is None
    assert look_up(hosted.replicas, None, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert hosted.replica("u").is_leader
    assert "t-0 is offline: its log has records of leader epoch 1, but the metadata is at 0" in (
        capsys.readouterr().out
    )
    await asyncio.sleep(1)
    hosted.close()
    (request,) = [
        body for body, _ in hosted.controller.asked if isinstance(body, AssignReplicasToDirsRequest)
    ]
    assert [(each.id, len(each.topics)) for each in request.directories] == [(LOST, 1)]
    assert (tmp_path / "t-0" / f"{0:020d}.log").read_bytes() == before


async def test_log_is_used_again_when_the_leader_epoch_is_raised(tmp_path: Path) -> None:
    """As a restore does that raises leader epochs."""
    cluster, backup = with_later_epoch(tmp_path)
    cluster.image = backup
    for _ in range(2):
        lead_on(cluster, "t")
    hosted = HostedReplicas(tmp_path, cluster)
    replica = hosted.replica("t")
    assert replica.core.epoch_starts == ((1, 0), (2, 1))
    data = data_batch(0).data
    assert isinstance(data, bytes)
    assert produce(replica, data) == (BrokerError.NONE, 1)
    hosted.close()


async def test_log_of_a_deleted_topic_is_deleted_although_it_was_not_used(tmp_path: Path) -> None:
    """A topic of the same name begins with an empty log."""
    cluster, backup = with_later_epoch(tmp_path)
    cluster.image = backup
    hosted = HostedReplicas(tmp_path, cluster)
    hosted.delete("t")
    hosted.replicas._deletions._threads.shutdown(wait=True)
    assert not (tmp_path / "t-0").exists()
    hosted.close()
