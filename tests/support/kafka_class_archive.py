"""Archives stock Kafka's classes in the form that the JVM has in memory, which halves the CPU of short-lived tools and servers.

Owns the run that makes the archive (`make programs`): a controller and broker that serves a client and ends. A JVM that finds other jars
runs without it. `stock_kafka.java` chooses which programs use it. Source: JEP 350 (dynamic archives).
"""

import signal
import subprocess
import tempfile
from pathlib import Path

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.records.identity import uuid_text
from quorum_pipeline.spark.class_data_sharing import options_to_make
from support import stock_kafka
from support.java_clients import Clients
from support.ports import free_ports

_STOP_SECONDS = 120.0


def keep() -> None:
    """Once for these jars and this Java. Raises KafkaUnavailable, ClientFailed, RuntimeError."""
    file = stock_kafka.kept_classes_file()
    if file is None or file.exists():
        return
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        root = Path(scratch)
        made = root / file.name
        _serve_once(root, made)
        made.rename(file)


def _serve_once(root: Path, made: Path) -> None:
    port, controller_port = free_ports(2)
    config = _configuration(root, port, controller_port)
    identity = ["-t", uuid_text(fresh_uuid()), "--standalone"]
    done = stock_kafka.run_tool(stock_kafka.STORAGE, "format", "-c", str(config), *identity)
    if done.returncode != 0:
        raise RuntimeError(f"formatting: {done.stdout}{done.stderr}")
    command = stock_kafka.java(
        *options_to_make(made).split(), stock_kafka.SERVER, str(config), heap_mb=256
    )
    with (root / "output").open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        clients = Clients.here(f"127.0.0.1:{port}", root)
        try:
            clients("create kept 1 1")
            clients("fill kept 10 100")
        finally:
            clients.close()
        server.send_signal(signal.SIGTERM)
        server.wait(_STOP_SECONDS)
    finally:
        server.kill()
        server.wait()
    if not made.exists():
        raise RuntimeError(f"no classes were kept: {(root / 'output').read_text()[-2000:]}")


def _configuration(root: Path, port: int, controller_port: int) -> Path:
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(root / "data"),
        "offsets.topic.replication.factor": "1",
    }
    path = root / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path
