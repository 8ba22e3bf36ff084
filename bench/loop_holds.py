"""How long an answer of 8 MiB occupies the loop of a node at a time, on the Kafka port and on the admin port, in clear text and over TLS.

Owns one node with enough configs in its log, and the requests for them: a Fetch, and `GET /v1/configs`. The node measures itself
(timed_node.py).
"""

import json
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from kafka_writes import WRITE_VERSION, write_error_of, write_many
from our_nodes import OurTlsCluster

from quorum_node.protocol.apis import FETCH, INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from quorum_node.protocol.frames import encode_request, read_frame
from quorum_node.server.wire.partitions import METADATA_TOPIC_ID
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask, opened
from support.tls_quorum import TlsQuorum, client_context

ANSWER_BYTES = 8 << 20
ANSWERS = 10
SETTLE_SECONDS = 5.0
"""Seconds after the start in which a node compiles codecs, in turns of up to some milliseconds."""
IN_A_REQUEST = 1000
REQUESTS = 32
"""Together about 9 MiB of records, and more as JSON."""
FETCH_VERSION = 18
NOTHING, KAFKA_PORT, ADMIN_PORT = "no answer", "Kafka port", "admin port"


Figures = dict[str, dict[str, float]]


def measure(root: Path) -> dict[str, Figures]:
    """In clear text and with mutual TLS."""
    return {
        "plain": of_a_node(root / "plain", LocalQuorum),
        "tls": of_a_node(root / "tls", TlsQuorum),
    }


def of_a_node(root: Path, kind: type[LocalQuorum]) -> Figures:
    """By port: size of an answer in bytes, and median and maximum over the answers of their longest turn, in ms of CPU time."""
    with kind(root, nodes=1, properties=dict(OurTlsCluster.properties)) as quorum:
        (node,) = quorum.nodes.values()
        node.module = "timed_node"
        quorum.form()
        fill(quorum, node)
        time.sleep(SETTLE_SECONDS)
        asked: dict[str, Callable[[], int]] = {
            NOTHING: pause,
            KAFKA_PORT: lambda: fetch(quorum, node),
            ADMIN_PORT: lambda: list_configs(quorum, node),
        }
        return {name: longest_turns(node, ask_once) for name, ask_once in asked.items()}


def longest_turns(node: LocalNode, ask_once: Callable[[], int]) -> dict[str, float]:
    """Figures of one kind of answer."""
    ask_once()  # codecs and caches are prepared by the first one
    path = node.data_dir.parent / "turns.json"
    longest, size = [], 0
    for _ in range(ANSWERS):
        path.unlink(missing_ok=True)
        node.signal(signal.SIGUSR1)
        size = ask_once()
        node.signal(signal.SIGUSR2)
        wait_until(path.exists, f"{path} is written", 10.0)
        longest.append(float(json.loads(path.read_text())["longest_ms"]))
    return {"bytes": size, "median_ms": median(longest), "max_ms": max(longest)}


def context_of(quorum: LocalQuorum) -> ssl.SSLContext | None:
    """Of an administrator; None in clear text."""
    if not isinstance(quorum, TlsQuorum):
        return None
    folder = quorum.folder("admin")
    return client_context(folder, folder / "ca.crt")


def fill(quorum: LocalQuorum, node: LocalNode) -> None:
    """Write configs of 256 bytes."""
    context = context_of(quorum)
    for number in range(REQUESTS):
        body = write_many(f"many-{number}", IN_A_REQUEST)
        address = (node.host, node.port)
        answer = ask(address, INCREMENTAL_ALTER_CONFIGS, WRITE_VERSION, body, 30.0, context)
        if error := write_error_of(answer):
            raise RuntimeError(f"write {number}: error {error}")


def pause() -> int:
    """About as long as an answer takes."""
    time.sleep(0.1)
    return 0


def fetch(quorum: LocalQuorum, node: LocalNode) -> int:
    """A consumer's Fetch from the beginning of the log; returns the size of the answer."""
    partition = FetchPartition(
        partition=0, current_leader_epoch=1, fetch_offset=0, partition_max_bytes=ANSWER_BYTES
    )
    body = FetchRequest(
        cluster_id=quorum.cluster_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=ANSWER_BYTES,
        topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )
    with opened((node.host, node.port), 30.0, context_of(quorum)) as connection:
        connection.sendall(encode_request(FETCH, FETCH_VERSION, 1, "bench", body))
        return len(read_frame(connection.recv, 2 * ANSWER_BYTES))


def list_configs(quorum: LocalQuorum, node: LocalNode) -> int:
    """All configs as JSON; returns the size of the answer."""
    answer = quorum.request("GET", "/v1/configs", node.id, timeout=60)
    if answer is None or not answer.is_success:
        raise RuntimeError("no list of configs")
    return len(answer.content)


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        print(json.dumps(measure(Path(directory)), indent=1))
