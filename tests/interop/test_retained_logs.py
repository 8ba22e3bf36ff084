"""Random logs beside a stock broker: segments begin at the same offsets, and retention removes the same ones."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from quorum_node.image.resource_types import TOPIC
from quorum_node.protocol import broker_apis
from quorum_node.protocol.configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.produced_batches import produced
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

STOCK, OURS = 101, 201
LOGS, BATCHES = 12, 45
HOUR_MS = 3_600_000
FOREVER = {"retention_ms": "-1"}
Segments = list[tuple[int, int]]
"""Base offset and size of each."""


class BrokerPair:
    """A stock broker and ours on one controller, each the only replica of its copy of a topic."""

    def __init__(self, ours: PythonBrokers, stock: JavaBrokers) -> None:
        self._ours = ours
        self._addresses = {
            STOCK: ("127.0.0.1", stock.brokers[STOCK].port),
            OURS: ("127.0.0.1", ours.nodes[OURS].port),
        }
        self._logs: dict[int, Path] = {
            STOCK: stock.brokers[STOCK].root / "data",
            OURS: ours.nodes[OURS].root / "logs",
        }
        self._topic = ""
        self._ids: dict[int, UUID] = {}

    def begin(self, topic: str, **configs: str) -> None:
        """New copies of a topic; returns when both lead theirs."""
        self._topic = topic
        for each in (STOCK, OURS):
            name = f"{topic}-{each}"
            self._ids[each] = self._ours.create_topic_at(OURS, name, [each], [OURS], LOGS, **configs)  # fmt: skip
            for number in range(LOGS):
                wait_until(lambda at=(each, number): self._leads(*at), f"{each} leads", 60)  # type: ignore[misc]

    def _leads(self, broker_id: int, number: int) -> bool:
        return self._produce(broker_id, number, b"")[0] == ErrorCode.INVALID_RECORD

    def alter(self, configs: dict[str, str]) -> None:
        """Of both copies."""
        values = tuple(
            AlterableConfig(
                name=name.replace("_", "."), config_operation=ConfigOperation.SET, value=value
            )
            for name, value in configs.items()
        )
        resources = tuple(
            AlterConfigsResource(
                resource_type=TOPIC, resource_name=f"{self._topic}-{each}", configs=values
            )
            for each in (STOCK, OURS)
        )
        body = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
        answer: Any = ask(self._addresses[OURS], INCREMENTAL_ALTER_CONFIGS, 1, body, 20)
        assert not any(each.error_code for each in answer.responses), answer

    def produce(self, number: int, data: bytes) -> None:
        """To both copies, which give the same answer."""
        theirs, mine = (self._produce(each, number, data) for each in (STOCK, OURS))
        assert mine == theirs

    def _produce(self, broker_id: int, number: int, data: bytes) -> tuple[int, int]:
        part = PartitionProduceData(index=number, records=data)
        topic = TopicProduceData(topic_id=self._ids[broker_id], partition_data=(part,))
        body = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(topic,))
        answer: Any = ask(self._addresses[broker_id], broker_apis.PRODUCE, 13, body, 20)
        each = answer.responses[0].partition_responses[0]
        return each.error_code, each.base_offset

    def segments(self, broker_id: int) -> list[Segments]:
        """Of each log, without those that are about to be removed."""
        return [
            sorted(
                (int(path.stem), path.stat().st_size)
                for path in (self._logs[broker_id] / f"{self._topic}-{broker_id}-{number}").glob(
                    "*.log"
                )
            )
            for number in range(LOGS)
        ]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    root = tmp_path_factory.mktemp("retained")
    with (
        LocalQuorum(root / "quorum", 1) as quorum,
        PythonBrokers(quorum, root / "ours", 1, log_retention_check_interval_ms="500") as ours,
    ):
        quorum.form()
        checks = {
            "log_retention_check_interval_ms": "500",
            "log_initial_task_delay_ms": "500",
            "log_cleaner_enable": "true",  # it also removes old segments of logs that are compacted
            "log_cleaner_backoff_ms": "300",
            "log_cleaner_dedupe_buffer_size": "8000000",
        }
        with JavaBrokers.on(quorum, root / "stock", 1, **checks) as stock:
            stock.start()
            ours.start()
            stock.wait_for([STOCK, OURS])
            yield BrokerPair(ours, stock)


def write(pair: BrokerPair, number: int) -> None:
    """Batches of the last two hours, not in the order of their times; some without times."""
    random, now_ms = Random(number), int(time.time() * 1000)
    base_ms = now_ms - 2 * HOUR_MS
    for _ in range(BATCHES):
        base_ms = min(base_ms + random.choice((0, 60_000, 300_000, 900_000, -500_000)), now_ms)
        values = [bytes(random.randrange(1, 150_000)) for _ in range(random.randrange(1, 3))]
        if not number % 3 and random.random() < 0.05:
            pair.produce(number, produced((0, b"k", values[0]), base_ms=-1))
        else:
            records = [(random.randrange(-30_000, 30_000), b"k", value) for value in values]
            pair.produce(number, produced(*records, base_ms=base_ms))


BY_TIME = {"retention_ms": str(HOUR_MS)}
BY_SIZE = {"retention_bytes": "2500000"}
SMALL = {"segment_bytes": str(1 << 20)}


@pytest.mark.parametrize(
    ("name", "configs", "retention"),
    [
        ("time", SMALL, BY_TIME),
        ("size", SMALL, BY_SIZE),
        ("both", {**SMALL, "segment_ms": "600000"}, BY_TIME | BY_SIZE),
        ("index", {"segment_index_bytes": "1024", "index_interval_bytes": "1000"}, BY_TIME),
        ("compacted", {**SMALL, "cleanup_policy": "compact,delete", "min_cleanable_dirty_ratio": "1"}, BY_TIME),
    ],
)  # fmt: skip
def test_same_segments_remain(
    pair: BrokerPair, name: str, configs: dict[str, str], retention: dict[str, str]
) -> None:
    """Retention begins when all is written: what it removes depends on what is there."""
    pair.begin(name, **configs, **FOREVER)
    for number in range(LOGS):
        write(pair, number)
    before = pair.segments(OURS)
    assert before == pair.segments(STOCK)
    pair.alter(retention)
    seen: list[list[Segments]] = []

    def is_settled() -> bool:
        time.sleep(0.5)  # the interval of the checks
        seen.append(pair.segments(OURS))
        return seen[-1] != before and seen[-4:] == [pair.segments(STOCK)] * 4

    wait_until(is_settled, "both have removed the same segments", 60)
