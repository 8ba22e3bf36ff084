"""examples/kafka/combined.yaml: three pods with both roles, as processes on this host, under librdkafka's clients."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.kind_env.kafka import EXAMPLE
from support.local_quorum import NODE_MODULE, wait_until
from support.ports import free_ports
from support.yaml_text import read_yaml_all

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

IDS = (101, 102, 103)


class Pods:
    """The processes of the pods. `clients`: ports of the brokers, by node id."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._controllers = dict(zip(IDS, free_ports(len(IDS)), strict=True))
        self.clients = dict(zip(IDS, free_ports(len(IDS)), strict=True))
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """Of clients."""
        return ",".join(f"127.0.0.1:{port}" for port in self.clients.values())

    def start(self, node_id: int) -> None:
        """Start a pod's process, with the addresses of this host in its configuration."""
        folder = self._root / str(node_id)
        folder.mkdir(exist_ok=True)
        text = started_config(folder, f"kafka-{node_id}")
        (admin,) = free_ports(1)
        places = {"/var/lib/kafka": str(folder), "127.0.0.1:8080": f"127.0.0.1:{admin}"}
        places["/tmp/failed"] = str(folder / "failed")
        for named, ports in ((9093, self._controllers), (9092, self.clients)):
            places[f"0.0.0.0:{named}"] = f"127.0.0.1:{ports[node_id]}"
            for other, port in ports.items():
                places[f"kafka-{other}.kafka-nodes:{named}"] = f"127.0.0.1:{port}"
        for old, new in places.items():
            text = text.replace(old, new)
        config = folder / "local.properties"
        config.write_text(text)
        with (folder / "log").open("ab") as log:
            command = [sys.executable, "-m", NODE_MODULE]
            self._running[node_id] = subprocess.Popen(
                [*command, "--config", str(config)], stdout=log, stderr=log
            )

    def kill(self, node_id: int) -> None:
        """Kill -9."""
        process = self._running.pop(node_id)
        process.kill()
        process.wait()

    def close(self) -> None:
        """End all."""
        for node_id in tuple(self._running):
            self.kill(node_id)


@contextmanager
def started(root: Path) -> Iterator[Pods]:
    pods = Pods(root)
    try:
        for node_id in IDS:
            pods.start(node_id)
        yield pods
    finally:
        pods.close()


def started_config(folder: Path, pod: str) -> str:
    """What `start.sh` hands to quorum-node, run with a program of the test in its place."""
    documents = read_yaml_all((EXAMPLE / "combined.yaml").read_text())
    data = next(each for each in documents if each["kind"] == "ConfigMap")["data"]
    script = data["start.sh"].replace("/etc/kafka-node", str(folder))
    script = script.replace("/tmp/node.properties", str(folder / "made.properties"))
    (folder / "node.properties").write_text(data["node.properties"])
    program = folder / "quorum-node"
    program.write_text('#!/bin/sh\n[ "$1" = --config ] && cat "$2"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "POD_NAME": pod}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_pods_form_one_cluster_and_clients_continue_when_one_is_killed(tmp_path: Path) -> None:
    with started(tmp_path) as pods:
        admin = AdminClient({"bootstrap.servers": pods.bootstrap})

        def live() -> bool:
            try:
                return set(admin.list_topics(timeout=2).brokers) == set(IDS)
            except Exception:
                return False

        wait_until(live, "all brokers are live", 90)
        topic = NewTopic("t", 6, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["t"].result(60)
        producer = Producer(
            {"bootstrap.servers": pods.bootstrap, "acks": "all", "enable.idempotence": True}
        )
        refused: list[object] = []

        def send(first: int) -> None:
            for number in range(first, first + 300):
                producer.produce(
                    "t",
                    str(number),
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                )
            assert producer.flush(90) == 0

        send(0)
        pods.kill(102)
        send(300)
        pods.start(102)
        send(600)
        assert not refused, refused[:3]
        consumer = Consumer(
            {"bootstrap.servers": pods.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        found: list[int] = []

        def read() -> bool:
            polled = consumer.consume(500, 0.5)
            found.extend(int(each.value() or b"") for each in polled if each.error() is None)
            return len(found) >= 900

        wait_until(read, "all messages are read", 60)
        consumer.close()
        assert sorted(found) == list(range(900)), "each of them once"
