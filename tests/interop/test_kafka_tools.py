"""Stock Kafka's command-line tools and admin client against a quorum of real nodes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import stock_kafka
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.patience import PATIENT

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

LOG_DIRECTORY = "__cluster_metadata-0"
CONTROLLER_PROPERTIES = {"process_roles": "controller", "controller_listener_names": "CONTROLLER"}


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    """Three voters; the tests that use it leave them as they are."""
    with LocalQuorum(
        tmp_path_factory.mktemp("quorum"), properties=PATIENT, **CONTROLLER_PROPERTIES
    ) as made:
        made.form()
        # Nothing more is written by itself: followers have no lag.
        wait_until(lambda: made.registered().keys() == {1, 2, 3}, "all have registered")
        yield made


def addresses(quorum: LocalQuorum) -> str:
    """Kafka-protocol listeners of the running nodes."""
    return ",".join(f"127.0.0.1:{n.port}" for n in quorum.nodes.values() if n.is_running)


def metadata_quorum(quorum: LocalQuorum, *arguments: str) -> str:
    """Output of kafka-metadata-quorum, which must succeed."""
    done = stock_kafka.run_tool(
        stock_kafka.METADATA_QUORUM, "--bootstrap-controller", addresses(quorum), *arguments
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def status(quorum: LocalQuorum) -> dict[str, str]:
    """describe --status, line by line."""
    lines = metadata_quorum(quorum, "describe", "--status").splitlines()
    return {name.strip(): text.strip() for name, _, text in (line.partition(":") for line in lines)}


@pytest.mark.requirement("K595-27", "K595-22")
def test_describe_status_matches_the_stock_tool(quorum: LocalQuorum) -> None:
    described = quorum.describe()
    shown = status(quorum)
    assert shown["ClusterId"] == quorum.cluster_id == described["clusterId"]
    assert shown["LeaderId"] == str(described["leaderId"])
    assert shown["LeaderEpoch"] == str(described["leaderEpoch"])
    assert int(shown["HighWatermark"]) >= described["highWatermark"]
    assert shown["MaxFollowerLag"] == "0"
    assert shown["CurrentObservers"] == "[]"
    for voter in described["voters"]:
        node = quorum.nodes[voter["id"]]
        assert f'"id": {voter["id"]}' in shown["CurrentVoters"]
        assert f'"directoryId": "{voter["uuid"]}"' in shown["CurrentVoters"]
        assert f"CONTROLLER://127.0.0.1:{node.port}" in shown["CurrentVoters"]


@pytest.mark.requirement("K595-27", "K853-02")
def test_describe_replication_matches_the_stock_tool(quorum: LocalQuorum) -> None:
    quorum.put("replicated", "x")
    described = quorum.describe()
    head, *rows = (
        line.split() for line in metadata_quorum(quorum, "describe", "--replication").splitlines()
    )
    assert head[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    found = {int(row[0]): dict(zip(head, row, strict=False)) for row in rows}
    assert sorted(found) == [1, 2, 3]
    for voter in described["voters"]:
        row = found[voter["id"]]
        leads = voter["id"] == described["leaderId"]
        assert row["DirectoryId"] == voter["uuid"]
        assert row["Status"] == ("Leader" if leads else "Follower")
        assert int(row["LogEndOffset"]) >= described["highWatermark"]
        assert row["Lag"] == "0"


def test_stock_admin_client_writes_reads_and_describes(quorum: LocalQuorum) -> None:
    """A write through it is committed: a linearizable read through our own API sees it."""
    name, value = "interop.name", "a value " * 30
    for wanted in (value, "-"):
        done = stock_kafka.run_source("Configs.java", addresses(quorum), name, wanted)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == ("value=none" if wanted == "-" else f"value={value}")
        assert lines[1] == f"leader={quorum.describe()['leaderId']}"
        assert lines[2] == "nodes=[1, 2, 3]"
        read = quorum.answered("GET", f"/v1/configs/broker/-/{name}?consistency=linearizable")
        if wanted == "-":
            assert read.status_code == 404
        else:
            assert read.json()["value"] == value


@pytest.mark.requirement("K595-02")
def test_stock_log_tool_reads_the_log_of_every_node(quorum: LocalQuorum) -> None:
    acknowledged = quorum.put("dumped", "for the log tool", topic="interop")
    for node in quorum.nodes.values():
        wait_until(
            lambda node=node: quorum.local(node.id)["logEndOffset"] >= acknowledged["endOffset"],
            f"node {node.id} has the record",
        )
    logs = [sorted((node.data_dir / LOG_DIRECTORY).glob("*.log")) for node in quorum.nodes.values()]
    outputs = dumps([path for (path,) in logs])
    assert len(outputs) == 3
    for out in outputs:
        assert "isvalid: false" not in out
        first = re.findall(r"^\| offset: (\d+) .*headerKeys: \[\] (\w+)", out, re.MULTILINE)[:3]
        assert first == [("0", "LeaderChange"), ("1", "KRaftVersion"), ("2", "KRaftVoters")]
        line = next(text for text in out.splitlines() if '"name":"dumped"' in text)
        assert f"offset: {acknowledged['offset']} " in line
        assert '"resourceName":"interop"' in line
        assert '"value":"for the log tool"' in line


def dumps(segments: list[Path]) -> list[str]:
    """What DumpLogSegments prints of each of these files, in one run."""
    files = ",".join(map(str, segments))
    tool = [stock_kafka.DUMP_LOG, "--cluster-metadata-decoder", "--files", files]
    done = stock_kafka.run_tool(*tool)
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr
    head, *outputs = re.split(r"^Dumping ", done.stdout, flags=re.MULTILINE)
    assert not head
    for path, out in zip(segments, outputs, strict=True):
        assert out.startswith(str(path)), out[:200]
    return outputs


def test_kafka_class_reads_the_quorum_state_of_a_running_node(quorum: LocalQuorum) -> None:
    described = quorum.describe()
    node = quorum.nodes[described["leaderId"]]
    path = node.data_dir / LOG_DIRECTORY / "quorum-state"
    done = stock_kafka.run_source("QuorumStateStore.java", "read", str(path))
    assert done.returncode == 0, done.stderr
    shown = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert shown["epoch"] == str(described["leaderEpoch"])
    assert shown["leader"] == str(node.id)


@pytest.mark.requirement("K595-27", "K853-05")
def test_stock_tools_remove_a_controller_and_add_a_new_one(tmp_path: Path) -> None:
    """remove-controller and add-controller, the latter with the new controller's own configuration file."""
    with LocalQuorum(tmp_path, properties=PATIENT, **CONTROLLER_PROPERTIES) as quorum:
        quorum.form()
        leaving = quorum.followers[0]
        uuid = quorum.local(leaving.id)["replicaUuid"]
        key = ["--controller-id", str(leaving.id), "--controller-directory-id", uuid]
        metadata_quorum(quorum, "remove-controller", *key)
        remaining = sorted({1, 2, 3} - {leaving.id})
        assert sorted(quorum.voter_ids()) == remaining
        quorum.put("after", "the removal")

        newcomer = quorum.add_node(4)
        newcomer.start()
        quorum.wait_caught_up(4)
        add_controller(quorum, newcomer)
        assert sorted(quorum.voter_ids()) == [*remaining, 4]
        wait_until(
            lambda: f'"id": {leaving.id}' in status(quorum)["CurrentObservers"],
            "a removed voter continues as an observer",
        )
        voters = [v for v in quorum.describe()["voters"] if v["id"] == 4]
        assert voters[0]["uuid"] == quorum.local(4)["replicaUuid"]

        done = stock_kafka.run_tool(
            stock_kafka.METADATA_QUORUM,
            *("--bootstrap-controller", addresses(quorum)),
            *("--command-config", str(newcomer.root / "node.properties"), "add-controller"),
        )
        assert done.returncode != 0
        assert "DuplicateVoterException" in done.stdout + done.stderr


def add_controller(quorum: LocalQuorum, node: LocalNode) -> None:
    """kafka-metadata-quorum add-controller, which reads the node's properties and meta.properties."""
    config = str(node.root / "node.properties")
    out = metadata_quorum(quorum, "--command-config", config, "add-controller")
    assert f"Added controller {node.id}" in out
