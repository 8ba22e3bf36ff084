"""Stock tools and a stock broker beside processes with both roles."""

import re
from pathlib import Path

import pytest

from support.combined_quorum import CombinedBrokers, CombinedQuorum
from support.java_brokers import JavaBrokers
from support.local_quorum import wait_until
from support.stock_kafka import tool

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.mark.requirement("K631-01")
def test_stock_tools_and_a_stock_broker_work_with_combined_processes(tmp_path: Path) -> None:
    with CombinedQuorum(tmp_path / "both") as quorum:
        quorum.form()
        brokers = CombinedBrokers(quorum)
        brokers.wait_live()
        with JavaBrokers.on(quorum, tmp_path / "stock", 1) as stock:
            stock.start()
            stock.wait_for([1, 2, 3, 101], 120)
            server = ("--bootstrap-server", brokers.bootstrap)
            made = ("--create", "--topic", "t", "--replica-assignment", "1:2:101")
            tool(TOPICS, *server, *made, "--config", "min.insync.replicas=2")
            lines = [f"line {number}" for number in range(200)]
            tool(PRODUCER, *server, "--topic", "t", given="\n".join(lines) + "\n")
            reading = ("--topic", "t", "--group", "g", "--from-beginning")
            some = ("--max-messages", "200", "--timeout-ms", "60000")
            assert tool(CONSUMER, *server, *reading, *some).splitlines()[:200] == lines
            wait_until(lambda: brokers.isr("t", 1) == {1, 2, 101}, "all replicas are in sync", 60)
            described = tool(QUORUM, *server, "describe", "--status")
            assert re.search(rf"^LeaderId:\s+{quorum.leader.id}$", described, re.MULTILINE)
