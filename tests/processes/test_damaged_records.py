"""Records that arrive damaged: reported by the node that fetched them, and checked by the leader that sent them."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorum_node.exit_codes import ExitCode
from support.accepting import serve_each
from support.ctl import Ctl
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.node_metrics import counter
from support.patience import fetch_timeout
from support.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K595-02")]

SENT, RECEIVED = b"a-value-that-is-sent", b"a-value-that-is-SENT"
SLOW_SCRUB = {"metadata.log.scrub.bytes.per.second": "1024"}
"""Otherwise the scrub could find the damage first."""
LOG = Path("__cluster_metadata-0", "00000000000000000000.log")


def held(quorum: LocalQuorum, node: LocalNode, name: str) -> str | None:
    """A value in the node's own state."""
    answer = quorum.answered("GET", f"/v1/configs/topic/t/{name}?consistency=local", node.id)
    return None if answer.status_code == 404 else answer.json()["value"]


def damage(node: LocalNode, value: bytes) -> None:
    """Change a value in the node's file, under the running process."""
    content = (node.data_dir / LOG).read_bytes()
    with (node.data_dir / LOG).open("r+b") as file:
        file.seek(content.index(value))
        file.write(value.swapcase())


def test_leader_with_a_bad_disk_is_reported_and_stops(make_quorum) -> None:
    """A new node fetches the log from its beginning, which the leader reads from its disk."""
    quorum: LocalQuorum = make_quorum(3, formed=True, properties=SLOW_SCRUB | fetch_timeout(6000))
    for number in range(200):
        quorum.put(f"n{number}", f"value-{number:04}-")
    for node in quorum.nodes.values():  # what a process has appended itself is served from memory
        node.kill()
    for node in quorum.nodes.values():
        node.start()
    quorum.wait_leader()
    leader = quorum.leader
    wait_until(lambda: counter(quorum, leader, "scrub_rounds") >= 1, "the first scrub is over")
    damage(leader, b"value-0003-")
    newcomer = quorum.add_node(4)
    newcomer.start()

    assert leader.wait_exit() == ExitCode.STORAGE_FAILED, leader.log_text
    message = json.loads(leader.termination_message)
    assert (message["reason"], message["nodeId"]) == ("StorageFailed", leader.id)
    # The scrub would name no offset.
    assert f"{LOG.name} is damaged from offset" in message["message"]
    assert json.loads((leader.root / "failed").read_text()) == message, "no failure is latched"
    assert "replica (4, " in leader.log_text
    assert "received damaged records from offset" in leader.log_text
    assert f"leader {leader.id} sends damaged records from offset" in newcomer.log_text
    assert counter(quorum, newcomer, "corrupt_fetches") >= 1

    quorum.wait_caught_up(4)
    assert quorum.get("n3") == "value-0003-"
    others = [each for each in quorum.nodes.values() if each is not leader]
    assert all(each.is_running for each in others), "another disk was condemned"


class DamagingProxy:
    """Passes a node's connections on; while `damages` is set, values that the node sends are changed on the way."""

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self.damages = False
        self.port, self._target = port, target
        self._listener = socket.create_server(("127.0.0.1", port))
        serve_each(self._listener, self._pass_on)

    def close(self) -> None:
        self._listener.close()

    def _pass_on(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        for source, sink, sent in ((client, server, False), (server, client, True)):
            threading.Thread(target=self._pump, args=(source, sink, sent), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, sent: bool) -> None:
        """Whole frames, so that a value is never cut in two."""
        stream = source.makefile("rb")
        try:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", size)[0])
                if sent and self.damages:
                    frame = frame.replace(SENT, RECEIVED)
                sink.sendall(size + frame)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                each.close()


@pytest.fixture
def behind_proxy(make_quorum) -> Iterator[tuple[LocalQuorum, DamagingProxy]]:
    """A single voter, to which others get by a proxy only."""
    quorum: LocalQuorum = make_quorum(1)
    node, (port,) = quorum.nodes[1], free_ports(1)
    node.overrides["advertised.listeners"] = f"CONTROLLER://127.0.0.1:{port}"
    proxy = DamagingProxy(port, (node.host, node.port))
    quorum.form()
    yield quorum, proxy
    proxy.close()


def test_damage_on_the_way_is_reported_until_it_ends_and_stops_no_node(behind_proxy) -> None:
    quorum, proxy = behind_proxy
    leader = quorum.nodes[1]
    observer = quorum.add_node(4)
    observer.start()
    quorum.wait_caught_up(4)
    ctl = Ctl(quorum)
    assert "damaged" not in ctl.run("describe", "replication")
    proxy.damages = True
    quorum.put("n", SENT.decode())

    def reporting() -> list[dict[str, Any]] | None:
        observers = quorum.describe()["observers"]
        return [each for each in observers if each["damagedFrom"] is not None] or None

    (replica,) = wait_until(reporting, "the leader describes the report")
    assert (replica["id"], replica["damagedFrom"]) == (4, replica["logEndOffset"])
    told = f"receives damaged records from offset {replica['damagedFrom']} on"
    assert told in ctl.run("describe", "replication")
    wait_until(lambda: counter(quorum, observer, "corrupt_fetches") >= 2, "it tries again")
    assert counter(quorum, leader, "corruption_reports") >= 1
    ready = quorum.client.get(f"{observer.admin_url}/readyz")
    assert ready.status_code == 503
    assert f"leader 1 sends damaged records from offset {replica['damagedFrom']} on" in ready.text
    assert held(quorum, observer, "n") is None, "damaged records were appended"

    proxy.damages = False
    quorum.wait_caught_up(4)
    assert held(quorum, observer, "n") == SENT.decode()
    wait_until(lambda: reporting() is None, "the report ends")
    assert "damaged" not in ctl.run("describe", "replication")
    assert leader.is_running
    assert not (leader.root / "failed").exists()
