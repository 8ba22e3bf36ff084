"""`quorum-node --recover`: real processes, two of three disks lost, and the old voters that return afterwards."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.records.identity import parse_uuid, uuid_text
from quorum_node.storage.partition_directory import partition_directory
from quorum_node.storage.synced_end import FILE_NAME, read_synced_end
from quorum_node.survivor import Survivor
from support.local_quorum import LocalNode, LocalQuorum, wait_until

pytestmark = [pytest.mark.long, pytest.mark.requirement("OP-07")]

MakeQuorum = Callable[..., LocalQuorum]
ENDED: dict[str, object] = {}


def content_of(path: Path) -> dict[str, bytes]:
    """All files except the synced end, which every opened log writes again under the next sequence number."""
    files = (p for p in path.rglob("*") if p.is_file() and p.name != FILE_NAME)
    return {str(p.relative_to(path)): p.read_bytes() for p in files}


def end_of(data_dir: Path) -> tuple[int, int]:
    recorded = read_synced_end(partition_directory(data_dir, 0))
    assert recorded is not None
    return recorded.end_offset, recorded.epoch


def held_by(quorum: LocalQuorum, node_id: int) -> Survivor:
    """The log range that a running node reports."""
    local = quorum.local(node_id)
    uuid = parse_uuid(local["replicaUuid"])
    return Survivor(uuid, local["logEndEpoch"], local["logEndOffset"])


def registrations(quorum: LocalQuorum, node_id: int) -> int:
    """How often the controller of a node has registered, by the leader's log."""
    return sum(
        record["type"] == "RegisterControllerRecord" and record["fields"]["controllerId"] == node_id
        for record in quorum.log_records(quorum.leader.id)
    )


def start_recovering(node: LocalNode, accepted: Survivor) -> None:
    node.arguments = ("--recover", str(accepted))
    node.start()


def refused(node: LocalNode, accepted: Survivor, code: ExitCode, *words: str) -> None:
    start_recovering(node, accepted)
    assert node.wait_exit() == code, node.log_text
    message = json.loads(node.termination_message)["message"]
    assert all(word in message for word in words), message


def lose(node: LocalNode) -> None:
    if node.is_running:
        node.kill()
    shutil.rmtree(node.data_dir)


def test_recovered_survivor_becomes_the_sole_voter_and_grows_back_with_all_its_records(
    make_quorum: MakeQuorum,
) -> None:
    quorum = make_quorum(3, formed=True)
    for number in range(20):
        quorum.put(f"k{number}", str(number))
    survivor, second, third = quorum.nodes.values()
    quorum.wait_caught_up(1)

    survivor.kill()
    one = Survivor(parse_uuid(quorum.founder_uuid), 1, 1)
    refused(survivor, one, ExitCode.IDENTITY_MISMATCH, "check the survivor again")
    survivor.arguments = ()
    earlier = registrations(quorum, 1)
    survivor.start()
    # After that nothing more is written.
    wait_until(lambda: registrations(quorum, 1) > earlier, "its controller registers again")
    quorum.wait_caught_up(1)
    accepted = held_by(quorum, 1)
    survivor.kill()
    refused(survivor, accepted, ExitCode.BAD_CONFIGURATION, "3 of 3 voters can be reached")

    lose(second)
    lose(third)
    survivor.arguments = ()
    survivor.start()
    accepted = held_by(quorum, 1)
    twin = LocalNode(1, survivor.root, survivor.port, survivor.admin_port)
    refused(twin, accepted, ExitCode.IDENTITY_MISMATCH, "another process uses")
    survivor.kill()
    other = Survivor(accepted.recovered_uuid, accepted.epoch, accepted.end_offset)
    refused(survivor, other, ExitCode.IDENTITY_MISMATCH, "another replica")
    (survivor.data_dir / "disk-probe.tmp").unlink(missing_ok=True)
    before, synced = content_of(survivor.data_dir), end_of(survivor.data_dir)

    start_recovering(survivor, accepted)
    (voter,) = quorum.describe()["voters"]
    assert (voter["id"], voter["uuid"]) == (1, uuid_text(accepted.recovered_uuid))
    assert quorum.describe()["leaderEpoch"] > 1 << 16
    kept = survivor.data_dir / f"before-recovery-{accepted.end_offset}-{accepted.epoch}"
    assert content_of(kept) == before
    assert end_of(kept) == synced
    assert [quorum.get(f"k{number}") for number in range(20)] == [str(n) for n in range(20)]

    survivor.kill()
    start_recovering(survivor, accepted)  # carried out already: the option may stay
    for node_id in (2, 3):
        quorum.add_node(node_id).start()
        quorum.add_voter(node_id)
    quorum.put("after", "x")
    assert sorted(quorum.voter_ids()) == [1, 2, 3]
    lose(survivor)
    assert quorum.get("after") == "x"
    assert quorum.get("k19") == "19"


def test_old_voters_that_return_form_no_second_quorum(make_quorum: MakeQuorum) -> None:
    """Two of three are a majority of the old set, and have committed records that the survivor never received."""
    quorum = make_quorum(4, initial_voters=3, formed=True)
    quorum.put("shared", "1")
    survivor, second, third, observer = quorum.nodes.values()
    quorum.wait_caught_up(1)
    survivor.kill()
    quorum.wait_leader()
    quorum.put("only-there", "2")
    wait_until(
        lambda: quorum.local(4)["highWatermark"] == quorum.describe()["highWatermark"],
        "the observer knows of the commit",
    )
    second.kill()
    third.kill()
    survivor.start()
    accepted = held_by(quorum, 1)
    survivor.kill()
    start_recovering(survivor, accepted)
    assert quorum.get("shared") == "1"
    assert quorum.get("only-there") is None, "lost, and reported"
    quorum.put("new", "3")

    # A replica with a higher committed offset than the new leader stops: committed records must not be truncated silently.
    assert observer.wait_exit() == ExitCode.STORAGE_FAILED
    assert "requires a truncation" in observer.termination_message
    assert "replica (4, " in survivor.log_text
    assert "and this leader has them only up to" in survivor.log_text
    del quorum.nodes[4]
    # A restarted replica knows the committed offset of the time at which it last saved quorum-state, or a newer one if both
    # elected a leader before they heard of the recovery. If the new leader has less than that, it stops like the observer.
    # Otherwise its log is truncated, and the following voters record excludes it.
    for old in (second, third):
        old.start()
    for old in (second, third):
        found = wait_until(lambda: outcome(quorum, old), f"{old.id} follows or ends")  # noqa: B023
        if found is ENDED:
            assert old.wait_exit() == ExitCode.STORAGE_FAILED
            assert "requires a truncation" in old.termination_message
        else:
            assert (found["isVoter"], found["role"], found["leaderId"]) == (False, "observer", 1)
    for old in (second, third):
        if old.is_running:
            old.kill()
    assert quorum.get("new") == "3"
    assert quorum.get("only-there") is None
    assert quorum.voter_ids() == [1]


def outcome(quorum: LocalQuorum, node: LocalNode) -> dict[str, object] | None:
    """ENDED, or the state that the node reports once it has the new voters record."""
    if not node.is_running:
        return ENDED
    answer = quorum.request("GET", "/v1/node", node.id)
    if answer is None or not answer.is_success:
        return None
    local: dict[str, object] = answer.json()
    voters = local["voters"]
    assert isinstance(voters, list)
    return local if [voter["id"] for voter in voters] == [1] else None
