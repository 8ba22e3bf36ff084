"""A broker without descriptors or memory ends, and the next one uses all its log directories under their ids."""

import asyncio
import errno
import os
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.opening import open_data_directories
from quorum_node.storage.errors import OutOfResources, StorageFailure
from support.data_batches import data_batch
from support.failing_files import FailingFiles
from support.hosted_replicas import ME, OTHER, HostedReplicas, produce

pytestmark = pytest.mark.virtual_time


class Record:
    def __init__(self) -> None:
        self.failed_ids: list[UUID] = []

    def failed(self, directory: DataDirectory, failure: StorageFailure) -> None:
        self.failed_ids.append(directory.directory_id)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_an_append_without_resources_ends_the_process_and_no_directory_counts_as_failed(
    tmp_path: Path, number: int
) -> None:
    files, record = FailingFiles(), Record()
    hosted = HostedReplicas(
        tmp_path / "a", second=tmp_path / "b", second_files=files, record=record
    )
    hosted.register_directories()
    hosted.create("in-a", (ME, OTHER))
    in_b = hosted.create("in-b", (ME, OTHER))
    files.error = number
    batch = data_batch(0).data
    assert isinstance(batch, bytes)
    assert produce(in_b, batch) == (BrokerError.KAFKA_STORAGE_ERROR, -1)
    files.error = None
    assert produce(in_b, batch) == (BrokerError.KAFKA_STORAGE_ERROR, -1), "never again"
    await asyncio.sleep(0)
    assert [type(each) for each in hosted.failures] == [OutOfResources]
    hosted.directories.close(5)
    assert not record.failed_ids


async def test_a_start_without_descriptors_is_refused_and_no_directory_stays_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lock lasts until the end of the process, which has several starts here.
    monkeypatch.setattr(
        "quorum_node.server.broker.opening.lock_directory", lambda path: path.mkdir(exist_ok=True)
    )
    paths, metadata = [tmp_path / name for name in "ab"], tmp_path / "metadata"
    metadata.mkdir()
    open_data_directories(paths, metadata, 1, "c", BrokerEvents(), lambda failure: None).close(7)
    real = os.open

    def fails(path: Path, *arguments: int) -> int:
        if Path(path) == paths[1] / "meta.properties":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(OutOfResources, match="EMFILE"):
        open_data_directories(paths, metadata, 1, "c", BrokerEvents(), lambda failure: None)
