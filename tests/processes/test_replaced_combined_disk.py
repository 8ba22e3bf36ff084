"""The disk of a process with both roles is lost: the steps of docs/how-to/broker-combined.md, with processes on this host."""

import shutil
from pathlib import Path

from quorum_node.protocol.errors import ErrorCode
from support.combined_quorum import CombinedBrokers, CombinedQuorum
from support.local_quorum import wait_until

IDS = (1, 2, 3)
FOUNDER = 1


def test_a_process_with_an_empty_disk_becomes_a_voter_again_and_fetches_its_replicas(
    tmp_path: Path,
) -> None:
    with CombinedQuorum(tmp_path) as quorum:
        quorum.form()
        brokers = CombinedBrokers(quorum)
        brokers.wait_live()
        topic = brokers.create_topic("t", IDS, min_insync_replicas="2")
        keeper = quorum.leader.id
        node = quorum.nodes[next(each for each in IDS if each not in (keeper, FOUNDER))]

        def write(value: bytes) -> None:
            def acknowledged() -> bool:
                leader = brokers.leader("t", keeper)
                if leader is None or not brokers.nodes[leader].is_running:
                    return False
                return brokers.produce(leader, topic, [value]).error_code == ErrorCode.NONE

            wait_until(acknowledged, f"{value!r} is acknowledged", 60)

        write(b"before")
        lost = quorum.local(node.id)["replicaUuid"]
        node.kill()
        for path in (node.data_dir, node.root / "logs"):
            shutil.rmtree(path)
        (node.root / "formatted").unlink(missing_ok=True)  # as in a new pod
        write(b"meanwhile")
        quorum.remove_voter(node.id, lost)
        assert set(quorum.voter_ids()) == set(IDS) - {node.id}
        node.overrides["controller.quorum.auto.join.enable"] = "true"
        node.start()
        wait_until(lambda: set(quorum.voter_ids()) == set(IDS), "it is a voter again", 60)
        assert quorum.local(node.id)["replicaUuid"] != lost
        wait_until(lambda: brokers.isr("t", keeper) == set(IDS), "its replica is in sync", 60)
        write(b"after")
        leader = wait_until(lambda: brokers.leader("t", keeper), "it has a leader")
        values = brokers.read_all(leader, topic)
        assert [each for each in (b"before", b"meanwhile", b"after") if each not in values] == []
