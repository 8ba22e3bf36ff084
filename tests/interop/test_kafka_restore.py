"""Stock brokers go on when all controllers are gone and one was restored from a backup under the same cluster id."""

import shutil
from pathlib import Path

import pytest

from quorum_node.archiver.main import main
from quorum_node.backups.folder import backups_in
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]


def test_stock_broker_continues_with_a_restored_quorum(tmp_path: Path) -> None:
    """It runs meanwhile. Its messages, and a topic that the backup holds, are there; new ones are made and used."""
    target = tmp_path / "backups"
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        with JavaBrokers.on(quorum, tmp_path, 1) as brokers:
            brokers.start()
            brokers.wait_for([101])
            clients = brokers.clients
            clients("create t 3 1")
            clients.start_load("t", 100)
            clients.wait_for_load("t", 100)
            bootstrap = ",".join(f"{node.host}:{node.port}" for node in quorum.nodes.values())
            assert main(["take", "--target", str(target), "--bootstrap", bootstrap]) == 0
            (backup,) = backups_in(target)

            for node in quorum.nodes.values():
                node.kill()
                shutil.rmtree(node.data_dir)
                # As in a new pod, without a record of an earlier format.
                (node.root / "formatted").unlink()
            founder = quorum.nodes[1]
            founder.arguments = ("--restore-from", str(backup))
            founder.start()
            quorum.wait_leader()
            assert quorum.voter_ids() == [1]
            for node_id in (2, 3):
                quorum.nodes[node_id].start()
                quorum.add_voter(node_id)
            wait_until(lambda: sorted(quorum.voter_ids()) == [1, 2, 3], "three voters again", 60)
            brokers.wait_for([101])
            clients("create u 2 1")
            clients.wait_for_load("t", 200)
            clients.prove_nothing_lost("t", "readers", 60)
            assert clients("describe u") == "0:101/101/101 1:101/101/101"
