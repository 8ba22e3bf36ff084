"""A new replica goes to the directory with fewer logs (broker/assigned_replicas.py)."""

import asyncio
from pathlib import Path
from uuid import UUID

from quorum_node.controller.topics import create_topics
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from support.controlled_cluster import ControlledCluster, assigned
from support.hosted_replicas import ME, HostedReplicas


class Directories:
    """A broker with directories a and b."""

    def __init__(self, root: Path, cluster: ControlledCluster | None = None) -> None:
        self.hosted = HostedReplicas(root / "a", cluster, second=root / "b")
        self.a, self.b = self.hosted.register_directories()

    async def create(self, *names: str) -> str:
        """The directories of these new topics."""
        found = ""
        for each in names:
            await asyncio.sleep(0)  # a turn of the loop creates few logs
            found += "a" if self.hosted.create(each).directory_id == self.a else "b"
        return found

    async def move(self, name: str, directory_id: UUID) -> None:
        self.hosted.replicas.moves.request(self.hosted.replica(name), directory_id)
        async with asyncio.timeout(60):
            while list(self.hosted.replicas.moves):  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.005)

    def close(self) -> None:
        self.hosted.replicas.close()
        self.hosted.directories.close(1)


async def test_deleted_replicas_do_not_count(tmp_path: Path) -> None:
    made = Directories(tmp_path)
    assert await made.create("t", "u", "v", "w") == "abab"
    for name in "uw":
        made.hosted.delete(name)
    assert await made.create("x", "y", "z") == "bba"
    made.close()


async def test_moved_replica_counts_in_its_new_directory(tmp_path: Path) -> None:
    made = Directories(tmp_path)
    assert await made.create("t", "u") == "ab"
    await made.move("t", made.b)
    assert await made.create("v", "w", "x") == "aaa"
    made.close()


async def test_found_logs_count_before_they_are_open(tmp_path: Path) -> None:
    """Also those that are opened after the new ones: topics have no order."""
    made = Directories(tmp_path)
    assert await made.create("t", "u", "v") == "aba"
    await made.move("u", made.a)
    made.close()
    cluster, new = made.hosted.cluster, ("w", "x", "y")
    topics = tuple(assigned(each, (ME,)) for each in new)
    cluster.ask(create_topics, CreateTopicsRequest(topics=topics), CreateTopicsResponse)
    again = Directories(tmp_path, cluster)
    assert {again.hosted.replica(each).directory_id for each in new} == {again.b}
    again.close()
