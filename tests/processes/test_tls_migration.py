"""Real processes: a quorum in clear text goes to TLS and back, one restart of a member at a time, under writes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from support.local_quorum import LocalNode, wait_until
from support.previous_version import NoHistory, previous_node
from support.quorum_writer import OneAttemptWriter, Writer, assert_nothing_lost
from support.tls_quorum import TlsQuorum

MakeQuorum = Callable[[int], "MigratingQuorum"]
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class MigratingQuorum(TlsQuorum):
    """Formed in clear text; members have certificates in their folders, and are configured for them stage by stage."""

    scheme = "http"

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `LocalQuorum`."""
        self._secured = {**getattr(self, "_secured", {}), node.id: super().properties_of(node)}
        return {}

    def stage(self, node: LocalNode, stage: str) -> None:
        """The configuration of the node from its next start on."""
        node.overrides = {}
        if stage == "plain":
            node.scheme = "http"
            return
        place = f"{node.host}:{node.admin_port}"
        node.overrides = {
            **self._secured[node.id],
            "admin.listener": f"https://{place}",
            "admin.advertised.listener": f"https://{place}",
        }
        # A client in clear text continues as long as that is accepted.
        node.scheme = "https" if stage == "none" else "http"
        if stage == "none":
            node.overrides["authorizer.class.name"] = AUTHORIZER
        else:
            node.overrides["quorum.tls.migration"] = stage

    def roll(self, stage: str, writer: Writer) -> None:
        """Every member, the leader last."""
        leader = self.leader
        for node in [*(n for n in self.nodes.values() if n is not leader), leader]:
            assert node.terminate() == 0, node.log_text[-2000:]
            self.stage(node, stage)
            node.start()
            self.wait_caught_up(node.id)
            writer.more()


@pytest.fixture
def make_migrating(tmp_path: Path) -> Iterator[MakeQuorum]:
    made: list[MigratingQuorum] = []

    def make(members: int) -> MigratingQuorum:
        made.append(MigratingQuorum(tmp_path / "quorum", members))
        return made[-1]

    yield make
    for quorum in made:
        quorum.close()
        for node in quorum.nodes.values():
            print(node.log_text[-4000:])


def dialled_in_clear_text(quorum: MigratingQuorum) -> bool:
    return any(quorum.local(each)["tls"]["clearText"] for each in quorum.nodes)


def is_shut_out(quorum: MigratingQuorum, node: LocalNode) -> bool:
    try:
        quorum.client.get(f"http://{node.host}:{node.admin_port}/v1/node")
    except httpx.HTTPError:
        return True
    return False


def problems(quorum: MigratingQuorum) -> list[str]:
    """What members have refused of each other."""
    return [
        line
        for node in quorum.nodes.values()
        for line in node.log_text.splitlines()
        if "denied" in line or "is refused at listener" in line or "who answers is not" in line
    ]


def test_member_that_accepts_both_protocols_reports_clear_text_clients(
    make_migrating: MakeQuorum,
) -> None:
    quorum = make_migrating(1)
    (node,) = quorum.nodes.values()
    quorum.stage(node, "dial")
    quorum.form()
    quorum.put("a", "1")
    secured = f"https://{node.host}:{node.admin_port}/v1/node"
    reported = quorum.client.get(secured).json()["tls"]
    assert (reported["migration"], reported["clearText"]) == ("dial", [])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_tls_migration_and_back_and_again_fails_no_write(make_migrating: MakeQuorum) -> None:
    quorum = make_migrating(3)
    quorum.form()
    with OneAttemptWriter(quorum) as writer:
        for stage in ("accept", "plain", "accept", "dial", "accept", "dial", "none"):
            quorum.roll(stage, writer)
    assert writer.failed == []
    assert_nothing_lost(quorum, writer.acknowledged)
    assert problems(quorum) == []
    assert all(is_shut_out(quorum, node) for node in quorum.nodes.values())


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_quorum_formed_by_the_previous_version_migrates_to_tls(
    make_migrating: MakeQuorum, tmp_path: Path
) -> None:
    try:
        older = previous_node(tmp_path / "previous")
    except NoHistory as missing:
        pytest.skip(str(missing))
    quorum = make_migrating(3)
    for node in quorum.nodes.values():
        node.prefix = older
    quorum.form()
    for node in quorum.nodes.values():
        node.prefix = ()  # from its next start on
    with OneAttemptWriter(quorum) as writer:
        quorum.roll("accept", writer)
        of_older = len(writer.failed)
        for stage in ("dial", "none"):
            quorum.roll(stage, writer)
    # The previous version answers at once while there is no leader; nothing was carried out then.
    assert all("_LEADER" in each for each in writer.failed[:of_older])
    assert writer.failed[of_older:] == []
    assert_nothing_lost(quorum, writer.acknowledged)


@pytest.mark.slow
@pytest.mark.long
def test_members_that_connect_by_tls_are_not_counted_as_clear_text(
    make_migrating: MakeQuorum,
) -> None:
    quorum = make_migrating(3)
    for node in quorum.nodes.values():
        quorum.stage(node, "accept")
    quorum.form()
    assert dialled_in_clear_text(quorum)
    with Writer(quorum) as writer:
        quorum.roll("dial", writer)
    wait_until(lambda: not dialled_in_clear_text(quorum), "no port accepts clear text", 180)
