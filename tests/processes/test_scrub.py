"""Bits that flip under a running node are detected by the scrub, also where no client reads."""

import json
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.node_metrics import counter
from support.patience import fetch_timeout

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K595-02")]


def rounds(quorum: LocalQuorum, node: LocalNode) -> int:
    return counter(quorum, node, "scrub_rounds")


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 4]))


@pytest.mark.parametrize("victim", ["leader", "follower"])
@pytest.mark.parametrize("name", ["00000000000000000000.log", "quorum-state"])
def test_bit_rot_in_a_file_stops_the_node_as_a_failed_disk(
    make_quorum, victim: str, name: str
) -> None:
    quorum: LocalQuorum = make_quorum(3, formed=True, properties=fetch_timeout(6000))
    for number in range(5):
        quorum.put(f"n{number}", "v")
    leader = quorum.leader
    node = next(
        each for each in quorum.nodes.values() if (each.id == leader.id) == (victim == "leader")
    )
    wait_until(lambda: rounds(quorum, node) >= 1, "a round over all files")
    assert node.is_running
    flip(node.data_dir / "__cluster_metadata-0" / name, 70)
    assert node.wait_exit() == ExitCode.STORAGE_FAILED, node.log_text
    message = json.loads(node.termination_message)
    assert message["reason"] == "StorageFailed"
    assert f"{name} is damaged" in message["message"]
    assert json.loads((node.root / "failed").read_text()) == message, "the failure is not latched"
    quorum.put("after", "v")
    assert all(each.is_running for each in quorum.nodes.values() if each is not node)
