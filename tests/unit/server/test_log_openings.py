"""A topic of many partitions: its logs are created in many turns of the loop, with those of others between them."""

import asyncio
from pathlib import Path

import pytest

from quorum_node.server.broker.log_openings import AT_ONCE
from support.hosted_replicas import ME, HostedReplicas

pytestmark = pytest.mark.virtual_time

PARTITIONS = 60


def opened(hosted: HostedReplicas) -> int:
    return sum(1 for _ in hosted.replicas)


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_logs_are_created_one_in_a_turn(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    told = 0

    def tell() -> None:
        nonlocal told
        told += 1

    hosted.replicas.watch(tell)
    hosted.create("many", *((ME,),) * PARTITIONS)
    assert opened(hosted) == AT_ONCE
    before = AT_ONCE
    while opened(hosted) < PARTITIONS:
        await asyncio.sleep(0)
        assert opened(hosted) <= before + 1, "one turn created several logs"
        before = opened(hosted)
    assert told == PARTITIONS - AT_ONCE
    assert hosted.replica("many", PARTITIONS - 1).is_leader
    hosted.close()


async def test_turns_of_several_images_share_the_limit(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    for number in range(3 * AT_ONCE):
        hosted._create(f"topic-{number}", ((ME,),), {})
    assert opened(hosted) == AT_ONCE
    hosted._create("later", ((ME,),), {})
    await asyncio.sleep(10)
    assert opened(hosted) == 3 * AT_ONCE + 1
    hosted._create("alone", ((ME,),), {})
    assert hosted.replica("alone").is_leader, "a single one is opened at once"
    hosted.close()


async def test_deleted_topic_is_not_opened_later(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("gone", *((ME,),) * PARTITIONS)
    hosted.delete("gone")
    await asyncio.sleep(10)
    assert opened(hosted) == 0
    assert f"gone-{PARTITIONS - 1}" not in names_in(tmp_path)
    hosted.close()


async def test_closed_broker_opens_nothing_more(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("many", *((ME,),) * PARTITIONS)
    hosted.close()
    await asyncio.sleep(10)
    assert opened(hosted) == AT_ONCE


async def test_all_are_opened_at_the_start(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("many", *((ME,),) * PARTITIONS)
    await asyncio.sleep(10)
    cluster = hosted.cluster
    hosted.close()
    again = HostedReplicas(tmp_path, cluster)
    assert opened(again) == PARTITIONS
    again.close()
