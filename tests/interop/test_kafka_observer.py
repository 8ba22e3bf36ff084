"""A stock KRaft controller as an observer of our quorum: the Fetch protocol, seen from the other side."""

from itertools import count, islice
from pathlib import Path

import pytest

from support.java_observer import OBSERVER_ID, PARTITION, StockObserver
from support.java_quorum import log_bytes
from support.local_quorum import LocalQuorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def test_stock_controller_replicates_the_log_byte_for_byte(tmp_path: Path) -> None:
    """Leader discovery, cluster id, epochs, batches and control records, as Kafka's own Raft client takes them.

    That it also replays what brokers cause is shown in test_kafka_brokers.py and test_kafka_takeovers.py.
    """
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        for index in range(20):
            quorum.put(f"key-{index}", "value " * index)
        (first,) = (quorum.nodes[1].data_dir / PARTITION).glob("*.log")
        ours = first.read_bytes()
        # Behind all that was read, with what was not committed then.
        end_offset = quorum.put("last", "value")["endOffset"]

        with StockObserver(tmp_path / "observer", quorum) as observer:
            observer.start()
            found = observer.wait_fetched(end_offset)
        meta = (observer.root / "data" / "meta.properties").read_text()
        assert f"directory.id={found}" in meta
        (copy,) = observer.log_directory.glob("*.log")
        assert copy.read_bytes()[: len(ours)] == ours
        assert OBSERVER_ID not in quorum.voter_ids()


@pytest.mark.long
@pytest.mark.requirement("K853-08")
def test_stock_controller_downloads_a_snapshot_and_continues_with_the_log(tmp_path: Path) -> None:
    """FetchSnapshot by Kafka's own Raft client: its copy and the log after it are equal to ours to the byte."""
    options = {
        "metadata_log_max_record_bytes_between_snapshots": "20000",
        "metadata_max_retention_bytes": "30000",
        "metadata_log_segment_bytes": "16384",
    }
    with LocalQuorum(tmp_path / "quorum", **options) as quorum:
        quorum.form()
        numbers = count()

        def have_lost_their_beginnings() -> bool:
            """A second snapshot needs new records behind the first one, whenever its turn came."""
            for index in islice(numbers, 20):
                quorum.put(f"key-{index % 20}", f"{index} " + "v" * 300)
            return all(quorum.local(each)["logStartOffset"] > 0 for each in quorum.nodes)

        wait_until(have_lost_their_beginnings, "the logs have lost their beginnings", 90.0)
        quorum.put("after", "the snapshot")
        end_offset = quorum.describe()["highWatermark"]

        with StockObserver(tmp_path / "observer", quorum) as observer:
            observer.start()
            observer.wait_fetched(end_offset)
        theirs = observer.log_directory
        copies = [
            path for path in theirs.glob("*.checkpoint") if not path.name.startswith("0" * 20)
        ]
        assert copies
        for copy in copies:
            assert copy.read_bytes() in [
                (node.data_dir / PARTITION / copy.name).read_bytes()
                for node in quorum.nodes.values()
                if (node.data_dir / PARTITION / copy.name).exists()
            ]
        (log,) = theirs.glob("*.log")
        assert int(log.stem) == max(int(copy.name[:20]) for copy in copies)
        suffix = log.read_bytes()
        assert suffix
        assert any(suffix in log_bytes(node.data_dir / PARTITION) for node in quorum.nodes.values())
