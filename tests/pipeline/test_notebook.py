"""The notebook in examples/, executed by a Jupyter kernel on the versions of a cluster whose brokers fail."""

import json
import random
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.control import VotersRecord
from quorum_pipeline.__main__ import main
from support.metadata_records import config
from support.written_log import LogWriter, broker, partition, voter

NOTEBOOK = Path(__file__).parents[2] / "examples" / "history.ipynb"
PICTURES = 4
MINUTE_MS = 60_000
RUN_SECONDS = 600


class FailingCluster:
    """Two topics on four brokers, one of which fails every few minutes; `moves`: how often a leader changed."""

    def __init__(self, root: Path) -> None:
        self.writer = LogWriter(root)
        self.rng = random.Random(7)
        self.moves = self.configs = 0
        self._topics = [UUID(int=number) for number in (1, 2)]
        self._replicas: dict[tuple[UUID, int], tuple[int, ...]] = {}
        self._leaders: dict[tuple[UUID, int], int] = {}
        self._down: set[int] = set()

    def run(self, rounds: int) -> None:
        """From the first record on."""
        self._begin()
        for number in range(rounds):
            self.writer.time_ms += self.rng.randrange(1, 4) * MINUTE_MS
            if self._down and self.rng.random() < 0.6:
                self._down.discard(min(self._down))
            elif len(self._down) < 3:
                self._down.add(self.rng.choice([1, 2, 3, 4]))
            if number == rounds // 3:
                self._down = {1, 2, 3}  # partitions on these three have no leader
            self._place()
            if number % 3 == 0:
                kind, name = self.rng.choice([(TOPIC, "orders"), (TOPIC, "users"), (BROKER, "1")])
                key = self.rng.choice(["retention.ms", "segment.bytes"])
                self.writer.append(config(kind, name, key, str(number)))
                self.configs += 1
            if number == rounds // 2:
                self.writer.append_control(
                    VotersRecord((voter(1, 11 << 96), voter(2, 12 << 96), voter(3, 13 << 96)))
                )
            if number == 2 * rounds // 3:
                self.writer.append_control(
                    VotersRecord((voter(1, 11 << 96), voter(2, 12 << 96), voter(3, 23 << 96)))
                )
        self.writer.close()

    def _begin(self) -> None:
        self.writer.append_control(VotersRecord((voter(1, 11 << 96),)))
        self.writer.append(*(broker(number, f"rack-{number}") for number in (1, 2, 3, 4)))
        for topic_id, name in zip(self._topics, ("orders", "users"), strict=True):
            self.writer.append(md.TopicRecord(name=name, topic_id=topic_id))
            for number in range(6):
                replicas = tuple(1 + (number + step) % 4 for step in range(3))
                self.writer.append(partition(number, replicas, topic_id))
                self._replicas[topic_id, number] = replicas
                self._leaders[topic_id, number] = replicas[0]

    def _place(self) -> None:
        for key, replicas in self._replicas.items():
            isr = tuple(each for each in replicas if each not in self._down)
            before, leader = self._leaders[key], isr[0] if isr else -1
            self.moves += leader != before
            self._leaders[key] = leader
            topic_id, number = key
            self.writer.append(
                md.PartitionChangeRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    isr=isr or replicas[:1],
                    leader=-2 if leader == before else leader,
                )
            )


@pytest.mark.long
@pytest.mark.timeout(RUN_SECONDS)
def test_notebook_draws_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every worker of a parallel run would import these while it collects the tests.
    import matplotlib.image
    import nbformat
    from nbclient import NotebookClient

    cluster = FailingCluster(tmp_path / "node")
    cluster.run(40)
    to = tmp_path / "versions"
    assert main(["versions", "--log", str(cluster.writer.directory), "--to", str(to)]) == 0
    monkeypatch.setenv("HISTORY", str(to))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=RUN_SECONDS, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(each.text for each in outputs if each.output_type == "stream")
    assert f"{cluster.moves} changes of leaders in 12 partitions" in text
    assert f"{cluster.configs} versions of" in text
    assert "4 replicas of 3 voters" in text
    pictures = [each.data["image/png"] for each in outputs if "image/png" in each.get("data", {})]
    assert len(pictures) == PICTURES
    for number, data in enumerate(pictures):
        content = b64decode(data)
        (tmp_path / f"picture-{number}.png").write_bytes(content)
        pixels = matplotlib.image.imread(BytesIO(content))
        colors = np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)
        assert len(colors) > 10, f"picture {number} is empty"


def test_notebook_is_stored_without_results() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert sum(cell["cell_type"] == "code" for cell in cells) == PICTURES + 2
    for cell in cells:
        assert not cell.get("outputs"), cell["id"]
        assert cell.get("execution_count") is None, cell["id"]
