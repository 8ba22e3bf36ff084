"""A replica that comes back under the same UUID with an older image of its disk: reported, not counted, not replaced."""

import shutil
from pathlib import Path

import pytest

from support.ctl import Ctl
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.node_metrics import counter
from support.patience import PATIENT

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K595-06")]


def went_back(quorum: LocalQuorum, node: LocalNode) -> int:
    """How many replicas went back, as this node has counted."""
    return counter(quorum, node, "replicas_went_back")


def wait_acknowledged(quorum: LocalQuorum, node: LocalNode) -> int:
    """Wait until the leader knows that the node has everything; the end of its log."""

    def end() -> int | None:
        described = quorum.describe()
        (found,) = (each for each in described["voters"] if each["id"] == node.id)
        return found["logEndOffset"] if found["lag"] == 0 and found["fetching"] else None

    return wait_until(end, f"{node.id} has acknowledged everything")


def restart(quorum: LocalQuorum, node: LocalNode, image: Path | None) -> None:
    """Kill the node and start it, after its data directory was replaced by the image, if there is one."""
    if node.is_running:
        node.kill()
    if image is not None:
        shutil.rmtree(node.data_dir)
        shutil.copytree(image, node.data_dir)
    node.start()
    quorum.wait_caught_up(node.id)


def test_replica_with_an_older_image_of_its_disk_is_reported(make_quorum, tmp_path: Path) -> None:
    quorum: LocalQuorum = make_quorum(3, formed=True, properties=PATIENT)
    # Only a leader that was acknowledged notices the loss.
    ctl, leader = Ctl(quorum), quorum.leader
    node = quorum.followers[0]
    quorum.put("before", "v")
    older = wait_acknowledged(quorum, node)
    node.kill()
    shutil.copytree(node.data_dir, tmp_path / "image")
    restart(quorum, node, None)
    for number in range(20):
        quorum.put(f"n{number}", "v")
    newer = wait_acknowledged(quorum, node)
    assert (went_back(quorum, leader), newer > older) == (0, True)
    assert "went back" not in ctl.run("describe", "replication")
    uuid = quorum.local(node.id)["replicaUuid"]

    restart(quorum, node, tmp_path / "image")
    assert quorum.leader is leader, "another leader does not know what was acknowledged"
    assert quorum.local(node.id)["replicaUuid"] == uuid

    wait_until(lambda: went_back(quorum, leader) == 1, "the leader counts it")
    (found,) = (each for each in quorum.describe()["voters"] if each["id"] == node.id)
    assert found["wentBack"]["acknowledgedOffset"] >= newer
    assert found["wentBack"]["offset"] <= older
    told = "went back from offset {acknowledgedOffset} to {offset}".format(**found["wentBack"])
    (line,) = (each for each in ctl.run("describe", "replication").splitlines() if told in each)
    assert uuid in line
    assert (
        f"fetches from offset {found['wentBack']['offset']}, but had acknowledged"
        in leader.log_text
    )
    assert "its disk has lost records" in leader.log_text

    quorum.put("after", "v")
    wait_acknowledged(quorum, node)
    assert went_back(quorum, leader) == 1, "it is reported once"
    assert sorted(quorum.voter_ids()) == sorted(quorum.nodes), "no replica is replaced for it"
    assert all(each.is_running for each in quorum.nodes.values())
