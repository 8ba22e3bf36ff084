"""DiscoverBrokers between real nodes: without a majority, after a move, for clients (K595-18)."""

import json
from pathlib import Path

import pytest

from quorum_node.protocol.apis import DISCOVER_BROKERS
from quorum_node.protocol.discover_brokers import (
    CLIENT_ID,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
)
from quorum_node.protocol.errors import ErrorCode
from support.ctl import Ctl
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask
from support.ports import free_ports

pytestmark = pytest.mark.slow


def discover(node: LocalNode, **fields: object) -> DiscoverBrokersResponse:
    request = DiscoverBrokersRequest(**{"replica_id": CLIENT_ID, **fields})  # type: ignore[arg-type]
    answer = ask(("127.0.0.1", node.port), DISCOVER_BROKERS, 0, request)
    assert isinstance(answer, DiscoverBrokersResponse)
    return answer


def ports(answer: DiscoverBrokersResponse) -> dict[int, int]:
    return {broker.voter_id: broker.port for broker in answer.brokers}


def move(node: LocalNode) -> None:
    """The same directory under another port."""
    (node.port,) = free_ports(1)
    address = f"CONTROLLER://127.0.0.1:{node.port}"
    node.overrides = {"listeners": address, "advertised.listeners": address}


@pytest.mark.long
@pytest.mark.requirement("K595-18")
def test_moved_node_is_found_with_too_few_voters_for_a_quorum(tmp_path: Path) -> None:
    with LocalQuorum(tmp_path) as quorum:
        quorum.form()
        old_ports = {n: node.port for n, node in quorum.nodes.items()}
        for node in quorum.nodes.values():
            wait_until(
                lambda node=node: all(b.boot_timestamp > 0 for b in discover(node).brokers),
                f"node {node.id} knows all endpoints",
            )
            answer = discover(node)
            assert ports(answer) == old_ports
            assert answer.cluster_id == quorum.cluster_id
            wait_until(
                lambda node=node: discover(node).leader_id == quorum.wait_leader(),
                f"node {node.id} knows the leader",
            )
        one, two, three = (quorum.nodes[n] for n in (1, 2, 3))
        # 2 misses a write, so that of 1 and 2 only 1 can be elected.
        two.kill()
        quorum.put("a", "not on 2")
        one.kill()
        three.kill()

        move(two)
        two.start()
        alone = wait_until(lambda: _reachable(two), "node 2 answers, alone")
        assert ports(alone) == {**old_ports, 2: two.port}
        assert alone.leader_id == -1 or alone.leader_id in (1, 3)
        # A client is not stored; nor is an older boot time of a voter.
        uuid = next(b.voter_directory_id for b in alone.brokers if b.voter_id == 3)
        lie = {"host": "127.0.0.1", "port": 1, "replica_directory_id": uuid}
        discover(two, boot_timestamp=2**60, **lie)
        discover(two, replica_id=3, boot_timestamp=-1, **lie)
        assert ports(discover(two)) == {**old_ports, 2: two.port}

        one.start()
        assert quorum.wait_leader() == 1
        assert quorum.get("a") == "not on 2"
        assert ports(discover(one)) == {**old_ports, 2: two.port}
        boots = {broker.voter_id: broker.boot_timestamp for broker in discover(one).brokers}
        assert min(boots[1], boots[2]) > 0
        text = Ctl(quorum).run("discover")
        assert f"127.0.0.1:{two.port}" in text
        document = json.loads(Ctl(quorum).run("--json", "discover"))
        assert {b["id"]: b["port"] for b in document["brokers"]}[2] == two.port
        unknown = discover(one, partition_index=7)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _reachable(node: LocalNode) -> DiscoverBrokersResponse | None:
    try:
        return discover(node)
    except OSError:
        return None
