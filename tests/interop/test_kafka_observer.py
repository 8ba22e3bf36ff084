"""A stock KRaft controller as an observer of our quorum: the Fetch protocol, seen from the other side."""

import subprocess
from pathlib import Path

import pytest

from support import stock_kafka
from support.local_quorum import LocalQuorum, free_ports, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

OBSERVER_ID = 9
PARTITION = "__cluster_metadata-0"


def write_controller(directory: Path, quorum: LocalQuorum) -> Path:
    """Configuration and formatted directory of a stock controller that is no initial voter."""
    (port,) = free_ports(1)
    servers = ",".join(f"127.0.0.1:{node.port}" for node in quorum.nodes.values())
    properties = {
        "node.id": str(OBSERVER_ID),
        "process.roles": "controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "advertised.listeners": f"CONTROLLER://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": servers,
        "log.dirs": str(directory / "data"),
    }
    path = directory / "controller.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    arguments = ["format", "-c", str(path), "-t", quorum.cluster_id, "--no-initial-controllers"]
    done = stock_kafka.run_tool(stock_kafka.STORAGE, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def test_a_stock_controller_replicates_our_log_byte_for_byte(tmp_path: Path) -> None:
    """Leader discovery, cluster id, epochs, batches and control records, as Kafka's own Raft client takes them.

    Only replication is shown: what stands above it in a stock controller wants a `metadata.version` record first,
    which a quorum without a Kafka controller on top doesn't write.
    """
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        for index in range(20):
            quorum.put(f"key-{index}", "value " * index)
        end_offset = quorum.describe()["highWatermark"]
        (first,) = (quorum.nodes[1].data_dir / PARTITION).glob("*.log")
        ours = first.read_bytes()

        config = write_controller(tmp_path, quorum)
        with (tmp_path / "output").open("wb") as output:
            command = stock_kafka.java(stock_kafka.SERVER, str(config), heap_mb=256)
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            found = wait_until(lambda: observed(quorum, end_offset), "it has what we have", 90)
        finally:
            process.kill()
            process.wait(30)
        meta = (tmp_path / "data" / "meta.properties").read_text()
        assert f"directory.id={found}" in meta
        (copy,) = (tmp_path / "data" / PARTITION).glob("*.log")
        assert copy.read_bytes()[: len(ours)] == ours
        assert OBSERVER_ID not in quorum.voter_ids()


@pytest.mark.long
@pytest.mark.requirement("K853-08")
def test_a_stock_controller_downloads_our_snapshot_and_goes_on_with_the_log(tmp_path: Path) -> None:
    """FetchSnapshot as Kafka's own Raft client speaks it: its copy is ours to the byte, and so is its log behind it."""
    options = {
        "metadata_log_max_record_bytes_between_snapshots": "20000",
        "metadata_max_retention_bytes": "30000",
        "metadata_log_segment_bytes": "16384",
    }
    with LocalQuorum(tmp_path / "quorum", **options) as quorum:
        quorum.form()
        for index in range(200):
            quorum.put(f"key-{index % 20}", f"{index} " + "v" * 300)
        wait_until(lambda: quorum.local(1)["logStartOffset"] > 0, "the log has lost its beginning")
        quorum.put("after", "the snapshot")
        end_offset = quorum.describe()["highWatermark"]

        config = write_controller(tmp_path, quorum)
        with (tmp_path / "output").open("wb") as output:
            command = stock_kafka.java(stock_kafka.SERVER, str(config), heap_mb=256)
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_until(lambda: observed(quorum, end_offset), "it has what we have", 90)
        finally:
            process.kill()
            process.wait(30)
        theirs = tmp_path / "data" / PARTITION
        copies = [
            path for path in theirs.glob("*.checkpoint") if not path.name.startswith("0" * 20)
        ]
        leader = next(node for node in quorum.nodes.values() if node not in quorum.followers)
        ours = leader.data_dir / PARTITION
        assert copies
        for copy in copies:
            assert copy.read_bytes() == (ours / copy.name).read_bytes()
        (log,) = theirs.glob("*.log")
        assert int(log.stem) == int(copies[-1].name[:20])
        suffix = log.read_bytes()
        assert suffix
        assert suffix in b"".join(path.read_bytes() for path in sorted(ours.glob("*.log")))


def observed(quorum: LocalQuorum, end_offset: int) -> str | None:
    """Directory id of the observer, once the leader knows that it has fetched everything."""
    for replica in quorum.describe()["observers"]:
        if replica["id"] == OBSERVER_ID and replica["logEndOffset"] >= end_offset:
            uuid: str = replica["uuid"]
            return uuid
    return None
