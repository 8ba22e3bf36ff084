"""Static quorums of real processes: controller.quorum.voters, restarts, lost disks, and growing out of it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from support.local_quorum import LocalNode, LocalQuorum, wait_until

pytestmark = pytest.mark.slow


class StaticQuorum(LocalQuorum):
    """The same nodes, configured with controller.quorum.voters and without a founder."""

    def make_static(self, *ids: int, cluster_id: str = "") -> None:
        """Every node gets these voters; the quorum forms by itself."""
        for node in self.nodes.values():
            configure(node, self.voters_text(*ids), cluster_id)

    def voters_text(self, *ids: int) -> str:
        return ",".join(f"{n}@127.0.0.1:{self.nodes[n].port}" for n in ids)

    def start_all(self) -> None:
        for node in self.nodes.values():
            if not node.is_running:
                node.start()

    def wait_formed(self) -> None:
        wait_until(lambda: self.describe()["formed"], "the static quorum has formed")


def configure(node: LocalNode, voters: str, cluster_id: str = "") -> None:
    path = node.root / "node.properties"
    lines = [
        line
        for line in path.read_text().splitlines()
        if not line.startswith(("formation.", "controller.quorum.", "cluster.id"))
    ]
    lines.append(f"controller.quorum.voters={voters}")
    if cluster_id:
        lines.append(f"cluster.id={cluster_id}")
    path.write_text("\n".join(lines) + "\n")


def roll_to_bootstrap_servers(quorum: StaticQuorum, node: LocalNode) -> None:
    """What a person does to leave static mode: another property, and a restart."""
    path = node.root / "node.properties"
    servers = ",".join(f"127.0.0.1:{other.port}" for other in quorum.nodes.values())
    lines = [
        line
        for line in path.read_text().splitlines()
        if not line.startswith("controller.quorum.voters")
    ]
    lines.append(f"controller.quorum.bootstrap.servers={servers}")
    path.write_text("\n".join(lines) + "\n")
    if node.is_running:
        node.terminate()
        node.start()


@pytest.fixture
def make_static(tmp_path: Path) -> Callable[..., StaticQuorum]:
    made: list[StaticQuorum] = []

    def make(nodes: int, *ids: int, **options: str) -> StaticQuorum:
        quorum = StaticQuorum(tmp_path / f"static-{len(made)}", nodes)
        made.append(quorum)
        quorum.make_static(*(ids or range(1, nodes + 1)), **options)
        return quorum

    yield make
    for quorum in made:
        quorum.close()
        for node in quorum.nodes.values():
            print(f"--- {node.id}\n{node.log_text[-4000:]}")


def control_types(quorum: StaticQuorum, node_id: int) -> list[str]:
    return [str(record["type"]) for record in quorum.log_records(node_id)]


def uuids(quorum: StaticQuorum) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for voter in quorum.describe()["voters"]:
        found.setdefault(voter["id"], []).append(voter["uuid"])
    return found


@pytest.mark.long
@pytest.mark.requirement("K853-04")
def test_three_static_voters_form_restart_and_lose_a_disk(make_static) -> None:
    quorum = make_static(3)
    for node_id in (1, 2):
        quorum.nodes[node_id].start()

    # A majority is there, and nothing forms: the third UUID is not known.
    def reports_missing_voters() -> bool:
        return "voter 3 is missing" in quorum.nodes[1].log_text + quorum.nodes[2].log_text

    wait_until(reports_missing_voters, "a node says that voter 3 is missing")
    ready = quorum.answered("GET", "/readyz", 1)
    assert ready.status_code == 503
    assert "has not formed yet" in ready.json()["reason"]
    assert quorum.local(1)["logEndOffset"] == quorum.local(2)["logEndOffset"] == 0

    quorum.nodes[3].start()
    quorum.wait_formed()
    quorum.put("a", "1")
    for node_id in (1, 2, 3):
        quorum.wait_caught_up(node_id)
    records = list(quorum.log_records(1))
    assert [record["offset"] for record in records[:3]] == [0, 1, 2]
    assert uuids(quorum) == {n: [quorum.local(n)["replicaUuid"]] for n in (1, 2, 3)}
    cluster_id = quorum.local(1)["clusterId"]
    assert cluster_id
    assert {quorum.local(n)["clusterId"] for n in (2, 3)} == {cluster_id}

    # All restart with the same configuration: the log takes precedence.
    for node in quorum.nodes.values():
        node.kill()
    quorum.start_all()
    assert quorum.get("a") == "1"
    assert "is out of date: the quorum has formed" in quorum.nodes[1].log_text
    assert quorum.local(1)["clusterId"] == cluster_id

    # An empty disk that claims a known id is an observer, under a UUID of its own.
    leader = quorum.leader
    lost = next(node for node in quorum.nodes.values() if node is not leader)
    old = quorum.local(lost.id)["replicaUuid"]
    lost.kill()
    shutil.rmtree(lost.data_dir)
    (lost.root / "formatted").unlink(missing_ok=True)
    lost.start()
    quorum.wait_caught_up(lost.id)
    local = quorum.local(lost.id)
    assert not local["isVoter"]
    assert local["replicaUuid"] != old
    assert uuids(quorum)[lost.id] == [old]

    # Its replacement is two committed records, with writes in between; a new id is not accepted.
    quorum.add_voter(lost.id, countNewcomer=True)
    assert sorted(uuids(quorum)[lost.id]) == sorted([old, local["replicaUuid"]])
    quorum.put("b", "2")
    quorum.remove_voter(lost.id, old)
    assert uuids(quorum)[lost.id] == [local["replicaUuid"]]
    stranger = quorum.add_node(4)
    configure(stranger, quorum.voters_text(1, 2, 3))
    stranger.start()
    quorum.wait_caught_up(4)
    assert "does not name node.id=4" in stranger.log_text
    with pytest.raises(AssertionError, match="NEW_VOTER_ID"):
        quorum.add_voter(4)
    assert quorum.get("b") == "2"


@pytest.mark.requirement("K853-03")
def test_exactly_one_of_static_voters_and_bootstrap_servers_must_be_configured(make_static) -> None:
    quorum = make_static(1)
    node = quorum.nodes[1]
    for overrides, word in (
        ({"controller.quorum.bootstrap.servers": "127.0.0.1:1"}, "can't be combined"),
        ({"controller.quorum.voters": ""}, "neither"),
    ):
        node.overrides = overrides
        node.start()
        assert node.wait_exit() == ExitCode.BAD_CONFIGURATION
        message = json.loads(node.termination_message)["message"]
        assert word in message
        assert "controller.quorum.voters" in message
        assert "controller.quorum.bootstrap.servers" in message
        assert not node.data_dir.exists()


@pytest.mark.long
@pytest.mark.requirement("K853-04")
def test_two_wiped_disks_form_no_second_quorum(make_static) -> None:
    """More than a quorum of three can lose: it is stuck, and there is no other one beside it."""
    quorum = make_static(3)
    quorum.start_all()
    quorum.wait_formed()
    quorum.put("a", "1")
    keys = uuids(quorum)
    for node in quorum.nodes.values():
        node.kill()
    for node_id in (1, 3):
        node = quorum.nodes[node_id]
        shutil.rmtree(node.data_dir)
        (node.root / "formatted").unlink(missing_ok=True)
    quorum.start_all()
    for node_id in (1, 3):
        wait_until(
            lambda node_id=node_id: (
                "refuses its vote" in quorum.nodes[node_id].log_text
                or not quorum.local(node_id)["isVoter"]
            ),
            f"node {node_id} has asked around",
        )
    assert [quorum.local(n)["role"] for n in (1, 3)].count("leader") == 0
    assert quorum.local(2)["role"] != "leader"
    known = quorum.answered("GET", "/v1/voter-history", 2)
    assert {v["uuid"] for v in known.json()["history"][-1]["voters"]} == {
        u[0] for u in keys.values()
    }


@pytest.mark.long
@pytest.mark.requirement("K595-19")
def test_different_static_voter_configurations_form_no_quorum_and_are_reported(make_static) -> None:
    quorum = make_static(3)
    configure(quorum.nodes[2], quorum.voters_text(1, 2))
    quorum.start_all()

    def said() -> bool:
        text = "".join(node.log_text for node in quorum.nodes.values())
        return "it is configured with the voters 1, 2, this node with 1, 2, 3" in text

    wait_until(said, "a log names the differing configurations")
    assert all(quorum.local(n)["logEndOffset"] == 0 for n in (1, 2, 3))
    quorum.nodes[2].kill()
    configure(quorum.nodes[2], quorum.voters_text(1, 2, 3))
    quorum.nodes[2].start()
    quorum.wait_formed()


@pytest.mark.requirement("K595-19")
def test_draft_example_starts_with_one_voter_and_grows_to_three(make_static) -> None:
    """KIP-595, "Bootstrapping Example": one node, writes, more nodes, a larger quorum, no config left."""
    quorum = make_static(3, 1)
    one = quorum.nodes[1]
    one.start()
    quorum.wait_formed()
    quorum.put("early", "kept")
    roll_to_bootstrap_servers(quorum, one)
    for node_id in (2, 3):
        roll_to_bootstrap_servers(quorum, quorum.nodes[node_id])
        quorum.nodes[node_id].start()
        quorum.wait_caught_up(node_id)
        quorum.add_voter(node_id)
    assert quorum.voter_ids() == [1, 2, 3]
    one.kill()
    assert quorum.get("early") == "kept"
    quorum.put("late", "without the first one")
    # Emptied and started the way it was in the beginning, it would be a second cluster of one.
    shutil.rmtree(one.data_dir)
    (one.root / "formatted").unlink(missing_ok=True)
    configure(one, quorum.voters_text(1))
    one.overrides = {"formation.bootstrap": "false"}
    one.start()
    wait_until(
        lambda: "prevents this node from forming one" in one.log_text, "it says why it waits"
    )
    assert quorum.local(1)["role"] == "observer"
    assert quorum.local(1)["logEndOffset"] == 0


@pytest.mark.requirement("K595-19")
def test_directory_formed_with_dynamic_voters_ignores_static_voters(make_static) -> None:
    quorum = make_static(2, 1)
    one = quorum.nodes[1]
    one.start()
    quorum.wait_formed()
    before = uuids(quorum)
    one.terminate()
    configure(one, f"{quorum.voters_text(2)},7@127.0.0.1:1")
    one.start()
    quorum.wait_leader()
    assert uuids(quorum) == before
    assert "is out of date: the quorum has formed" in one.log_text
