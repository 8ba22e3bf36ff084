"""Real processes: a quorum of the version before becomes one of this version, and goes back, under load."""

import itertools

import pytest

from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.previous_version import NoHistory, previous_node
from support.quorum_writer import Writer, assert_nothing_lost


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Prefix of a command line that runs the version before."""
    try:
        return previous_node(tmp_path_factory.mktemp("previous") / "source")
    except NoHistory as missing:
        pytest.skip(str(missing))


def leader_last(quorum: LocalQuorum) -> list[LocalNode]:
    leader = quorum.leader
    return [*(n for n in quorum.nodes.values() if n is not leader), leader]


def exchange(quorum: LocalQuorum, node: LocalNode, prefix: tuple[str, ...], *, kill: bool) -> None:
    """Stop a node, orderly or by kill -9, and start it on another version's code."""
    if kill:
        node.kill()
    else:
        assert node.terminate() == 0, node.log_text[-2000:]
    node.prefix = prefix
    node.start()
    quorum.wait_caught_up(node.id)


def led_by_one_of(quorum: LocalQuorum, wanted: list[LocalNode]) -> bool:
    """Whether one of them leads; any other leader is requested to resign."""
    leader = quorum.leader
    if leader in wanted:
        return True
    quorum.request("POST", "/v1/resign", leader.id)
    return False


def all_voters_agree(quorum: LocalQuorum) -> bool:
    """Each node follows the same leader in the same epoch."""
    views = [quorum.local(node_id) for node_id in quorum.nodes]
    return len({(view["leaderId"], view["leaderEpoch"]) for view in views}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "kill", [False, pytest.param(True, marks=pytest.mark.long)], ids=["orderly", "kill -9"]
)
def test_rolling_upgrade_and_downgrade_one_node_at_a_time_under_load(
    make_quorum, older, kill
) -> None:
    quorum = make_quorum(3)
    for node in quorum.nodes.values():
        node.prefix = older
    quorum.form()
    voters = {voter["uuid"] for voter in quorum.describe()["voters"]}
    with Writer(quorum) as writer:
        for prefix in ((), older):
            for node in leader_last(quorum):
                exchange(quorum, node, prefix, kill=kill)
                writer.more()
            wait_until(lambda: all_voters_agree(quorum), "all nodes follow one leader")
    assert {voter["uuid"] for voter in quorum.describe()["voters"]} == voters
    assert_nothing_lost(quorum, writer.acknowledged)


@pytest.mark.long
@pytest.mark.parametrize("led_by_older", [True, False], ids=["older leads", "newer leads"])
def test_voter_is_replaced_while_both_versions_run(make_quorum, older, led_by_older) -> None:
    quorum = make_quorum(3)
    for node in quorum.nodes.values():
        node.prefix = older
    quorum.form()
    leader = quorum.leader
    upgraded = quorum.followers if led_by_older else [leader]
    with Writer(quorum) as writer:
        for node in upgraded:
            exchange(quorum, node, (), kill=False)
            writer.more()
        leaders = [
            node for node in quorum.nodes.values() if node.prefix == (older if led_by_older else ())
        ]
        wait_until(lambda: led_by_one_of(quorum, leaders), "the version wanted leads")
        for prefix, removed in zip(((), older), quorum.followers, strict=True):
            newcomer = quorum.add_node(removed.id + 10)
            newcomer.prefix = prefix
            newcomer.start()
            quorum.wait_caught_up(newcomer.id)
            quorum.add_voter(newcomer.id)
            quorum.remove_voter(removed.id, quorum.local(removed.id)["replicaUuid"])
            removed.kill()
            del quorum.nodes[removed.id]
            writer.more()
    assert len(quorum.voter_ids()) == 3
    assert_nothing_lost(quorum, writer.acknowledged)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_rolling_upgrades_and_downgrades(make_quorum, older) -> None:
    quorum = make_quorum(5)
    for node in quorum.nodes.values():
        node.prefix = older
    quorum.form()
    kills = itertools.cycle([False, True, True])
    with Writer(quorum) as writer:
        for prefix in ((), older) * 10:
            for node in leader_last(quorum):
                exchange(quorum, node, prefix, kill=next(kills))
                writer.more(3)
    assert_nothing_lost(quorum, writer.acknowledged)
