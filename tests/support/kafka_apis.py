"""The same calls on stock Kafka and on stock brokers with controllers of ours: docs/reference/kafka-apis.md.

`make kafka-apis` runs both clusters, one after the other, and writes the page. Owns the sentences about what differs:
a difference without one, and a sentence without a difference, are errors. Calls: tests/interop/kafka/AdminCalls.java.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import (
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH_SNAPSHOT,
    FIRST_PRIVATE_KEY,
    FORWARDABLE,
    UPDATE_RAFT_VOTER,
    VOTE,
)
from support import stock_kafka
from support.java_brokers import SIGTERM_EXIT, JavaBrokers
from support.java_quorum import JavaQuorum
from support.kafka_api_notes import CALLS, KEYS
from support.local_quorum import LocalQuorum
from support.one_request import ask

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "kafka-apis.md"
_PROGRAM = "AdminCalls"
_RUN_TIMEOUT_SECONDS = 400.0
_NOT_THERE = "–"
_BETWEEN_CONTROLLERS = frozenset(
    api.key
    for api in (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH_SNAPSHOT, UPDATE_RAFT_VOTER)
)
"""Whether they are asked depends on what happens in the quorum, not on clients."""
_AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
_BROKER = {
    **_AUTHORIZER,
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
    "share_coordinator_state_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}

Versions = Mapping[int, tuple[int, int]]
"""Lowest and highest version by API key."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answers of one cluster. `asked`: the APIs that its controllers received of their own accord, where known."""

    calls: Mapping[str, str]
    keys: Mapping[int, str]
    versions: Versions
    asked: frozenset[str] = frozenset()


def on_stock(root: Path) -> Found:
    """Three controllers and the brokers, all stock."""
    with JavaQuorum(root / "controllers", 3, **_AUTHORIZER) as java:
        java.start()
        ports = [each.port for each in java.controllers.values()]
        calls, keys = _run(root, java.cluster_id, ports, java.leader_id)
        return Found(calls, keys, _versions(java.leader.port))


def on_ours(root: Path) -> Found:
    """Three controllers of ours, and the same brokers."""
    with LocalQuorum(root / "controllers", properties=dict(_AUTHORIZER)) as quorum:
        quorum.form()
        ports = [node.port for node in quorum.nodes.values()]
        calls, keys = _run(root, quorum.cluster_id, ports, quorum.wait_leader())
        return Found(calls, keys, _versions(quorum.leader.port), frozenset(_requests_at(quorum)))


def _run(
    root: Path, cluster_id: str, ports: list[int], leader_id: int
) -> tuple[dict[str, str], dict[int, str]]:
    """Brokers 101 to 103, of which 103 leaves; then the program. Its calls, and stock Kafka's names of the keys."""
    with JavaBrokers(root, cluster_id, ports, 3, **_BROKER) as brokers:
        brokers.start()
        brokers.wait_for([101, 102, 103])
        assert brokers.brokers[103].terminate() == SIGTERM_EXIT
        brokers.wait_for([101, 102])
        classes = stock_kafka.compiled(stock_kafka.SOURCES / f"{_PROGRAM}.java")
        controllers = ",".join(f"127.0.0.1:{port}" for port in ports)
        arguments = [brokers.bootstrap, controllers, str(leader_id)]
        done = subprocess.run(
            stock_kafka.java(_PROGRAM, *arguments, heap_mb=256, classes=classes),
            capture_output=True,
            text=True,
            timeout=_RUN_TIMEOUT_SECONDS,
        )
        (root / "errors").write_text(done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr
    lines = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    keys = {int(name[4:]): api for name, api in lines.items() if name.startswith("key ")}
    return {name: reported for name, reported in lines.items() if not name.startswith("key ")}, keys


def _versions(port: int) -> Versions:
    request = ApiVersionsRequest(client_software_name="apis", client_software_version="1")
    answer = ask(("127.0.0.1", port), API_VERSIONS, 4, request)
    assert isinstance(answer, ApiVersionsResponse)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def _requests_at(quorum: LocalQuorum) -> Iterator[str]:
    """Names of the APIs that the nodes counted requests of."""
    start = 'metadata_quorum_requests_total{api="'
    for node in quorum.nodes.values():
        for line in quorum.client.get(f"{node.admin_url}/metrics").text.splitlines():
            if line.startswith(start) and not line.endswith(" 0"):
                yield line.removeprefix(start).partition('"')[0]


def page(stock: Found, ours: Found) -> str:
    """The whole document. Raises AssertionError where a sentence is missing, or one too many."""
    calls = list(_call_rows(stock, ours))
    keys = list(_key_rows(stock, ours))
    differing = sum(bool(row[-1]) for row in calls)
    return "\n".join(
        [
            "# Stock brokers and clients on our controllers, call by call",
            "",
            "Written by `make kafka-apis`: the same calls of stock Kafka's clients on two clusters, one all stock, the other",
            "with the same brokers on controllers of ours. Three controllers, three brokers (one was removed), an authorizer. Terms are in the [glossary](glossary.md).",
            "",
            f"## {len(calls)} calls, {differing} with another outcome",
            "",
            "An error is shown by its class. Every method of the Admin client is here, but for those that send nothing.",
            "",
            *_table(("call", "all stock", "stock brokers, our controllers", "why"), calls),
            "",
            "## API keys of a controller's listener",
            "",
            "Versions as both announce them. Asked: whether our controllers got such requests while the calls ran,",
            "or would get them in an Envelope from a broker that passes on what a client asked for.",
            "",
            *_table(("key", "API", "stock", "ours", "asked", "what differs"), keys),
            "",
        ]
    )


def _call_rows(stock: Found, ours: Found) -> Iterator[tuple[str, ...]]:
    assert list(stock.calls) == list(ours.calls)
    for name, reported in stock.calls.items():
        differs = reported != ours.calls[name]
        why = CALLS.get(name, "")
        assert differs == bool(why), f"{name}: {reported!r}, {ours.calls[name]!r}, {why!r}"
        yield name, reported, ours.calls[name], why
    assert CALLS.keys() <= stock.calls.keys()


def _key_rows(stock: Found, ours: Found) -> Iterator[tuple[str, ...]]:
    public = [key for key in ours.versions if key < FIRST_PRIVATE_KEY]
    for key in sorted({*stock.versions, *public}):
        name = _camel(stock.keys[key])
        theirs, mine = stock.versions.get(key), ours.versions.get(key)
        why = KEYS.get(key, "")
        assert (theirs != mine) == bool(why), f"{key} {name}: {theirs}, {mine}, {why!r}"
        yield str(key), name, _range(theirs), _range(mine), _asked(key, name, ours), why


def _asked(key: int, name: str, ours: Found) -> str:
    if key in _BETWEEN_CONTROLLERS:
        return "between controllers"
    if name in ours.asked:
        return "yes"
    return "in an Envelope" if key in FORWARDABLE and key in ours.versions else ""


def _camel(name: str) -> str:
    """Stock Kafka's name of an API, which some versions write with underscores."""
    return "".join(each.capitalize() for each in name.split("_")) if "_" in name else name


def _range(versions: tuple[int, int] | None) -> str:
    return _NOT_THERE if versions is None else f"{versions[0]}–{versions[1]}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"


def both(root: Path) -> tuple[Found, Found]:
    """One after the other: some machines do not have enough memory for both."""
    return on_stock(root / "stock"), on_ours(root / "ours")


def main() -> None:
    """Write the page, or print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--print", action="store_true", help="instead of writing docs/reference/kafka-apis.md"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = page(*both(Path(folder)))
    if options.print:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
