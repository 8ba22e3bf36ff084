"""Backups of real processes: taken under load, restored when every node is destroyed, and only by who may read the log."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.archiver.main import main
from quorum_node.backups.folder import backups_in
from quorum_node.exit_codes import ExitCode
from support.local_quorum import LocalQuorum, wait_until
from support.quorum_writer import Writer
from support.unauthorized_clients import LockedQuorum

pytestmark = pytest.mark.long

MakeQuorum = Callable[..., LocalQuorum]


def bootstrap(quorum: LocalQuorum) -> str:
    return ",".join(f"{node.host}:{node.port}" for node in quorum.nodes.values())


def destroy(quorum: LocalQuorum) -> None:
    for node in quorum.nodes.values():
        node.kill()
        shutil.rmtree(node.data_dir)


def test_every_acknowledged_record_of_a_backup_survives_the_loss_of_all_nodes(
    make_quorum: MakeQuorum, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quorum, target = make_quorum(3), tmp_path / "backups"
    quorum.form()
    take = ["take", "--target", str(target), "--keep", "2", "--bootstrap", bootstrap(quorum)]
    with Writer(quorum) as writer:
        assert main(take) == 0
        for node_id in quorum.nodes:
            answer = quorum.answered("POST", "/v1/snapshot", node_id)
            assert answer.is_success
        writer.more()
        certain = len(writer.acknowledged)
        assert main(take) == 0, "beside a snapshot, under load"
        writer.more()
        leader = quorum.nodes[quorum.wait_leader()]
        leader.kill()
        also = len(writer.acknowledged)
        assert main(take) == 0, "from the leader at that time"
    capsys.readouterr()
    with_snapshot, last = backups_in(target)
    assert len(list((with_snapshot / "__cluster_metadata-0").glob("*.checkpoint"))) == 1
    leader.start()
    quorum.wait_caught_up(leader.id)
    destroy(quorum)

    for backup, count in ((with_snapshot, certain), (last, also)):
        again = make_quorum(1, properties={"cluster.id": quorum.cluster_id})
        (founder,) = again.nodes.values()
        founder.arguments = ("--restore-from", str(backup))
        founder.start()
        assert again.voter_ids() == [1]
        missing = [n for n in range(count) if again.get(f"n{n}") != str(n)]
        assert not missing, "acknowledged before the backup began"
    for node_id in (2, 3):
        again.add_node(node_id).start()
        again.add_voter(node_id)
    again.put("after", "x")
    founder.kill()
    assert again.get("after") == "x"
    assert again.get("n0") == "0"
    founder.start()  # with the option, which does nothing any more
    wait_until(lambda: again.local(1)["isVoter"], "the founder is back")
    assert sorted(again.voter_ids()) == [1, 2, 3]


def test_restore_is_rejected_beside_the_quorum_and_under_another_id(
    make_quorum: MakeQuorum, tmp_path: Path
) -> None:
    quorum = make_quorum(1, formed=True)
    quorum.put("k", "v")
    (old,) = quorum.nodes.values()
    target = tmp_path / "backups"
    assert main(["take", "--target", str(target), "--bootstrap", bootstrap(quorum)]) == 0

    def refused(cluster_id: str, servers: str, *arguments: str) -> dict[str, str]:
        settings = {"cluster.id": cluster_id, "controller.quorum.bootstrap.servers": servers}
        again = make_quorum(1, properties=settings)
        (node,) = again.nodes.values()
        node.arguments = ("--restore-from", str(target), *arguments)
        node.start()
        code = node.wait_exit()
        message: dict[str, str] = json.loads(node.termination_message)
        assert code in (ExitCode.BAD_CONFIGURATION, ExitCode.IDENTITY_MISMATCH)
        assert not (node.data_dir / "meta.properties").exists()
        return message

    beside = refused(quorum.cluster_id, f"127.0.0.1:{old.port}")
    assert f"is in cluster {quorum.cluster_id} already" in beside["message"]
    old.kill()
    other = refused("another", f"127.0.0.1:{old.port}")
    assert (
        f"backups of cluster {quorum.cluster_id}, and none of cluster another" in other["message"]
    )
    new = make_quorum(1, properties={"cluster.id": "another"})
    (node,) = new.nodes.values()
    node.arguments = ("--restore-from", str(target), "--restore-cluster-id", quorum.cluster_id)
    node.start()
    assert new.get("k") == "v"
    assert new.describe()["leaderEpoch"] < 10, "epochs restart at the beginning"
    new.add_node(2).start()
    new.add_voter(2)
    assert sorted(new.voter_ids()) == [1, 2]


def test_archiver_can_take_backups_and_a_reader_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LockedQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        quorum.issue_for("archiver", None)
        target = tmp_path / "backups"
        take = ["take", "--target", str(target), "--bootstrap", bootstrap(quorum)]
        assert main([*take, "--tls", str(quorum.folder("archiver"))]) == 0
        assert len(backups_in(target)) == 1
        capsys.readouterr()
        reader = ["--tls", str(quorum.folder("reader")), "--timeout", "10"]
        assert main([*take, *reader]) == 1
        assert "CLUSTER_AUTHORIZATION_FAILED" in capsys.readouterr().err
        assert main([*take, "--timeout", "1"]) == 1, "without a certificate"
        assert len(backups_in(target)) == 1
