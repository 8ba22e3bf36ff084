"""Plans while brokers are fenced, shutting down or cordoned: these excluded, keep what they have, and are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records import metadata as md
from quorum_pipeline.__main__ import main
from quorum_pipeline.placement.cluster import Broker, Partition
from quorum_pipeline.placement.plan import make_plan
from quorum_pipeline.placement.replicas import NoRoom
from support.written_log import TOPIC_ID, LogWriter, broker, partition

BROKERS = st.builds(
    lambda rack, usable, closed: Broker(0, rack, usable, closed),
    st.sampled_from("ab"),
    st.booleans(),
    st.sampled_from(["", "", "fenced"]),
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(BROKERS, min_size=1, max_size=8),
    st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=3, unique=True), max_size=30),
    st.booleans(),
)
@pytest.mark.requirement("SP-06")
def test_excluded_broker_gets_neither_replicas_nor_leaders(
    brokers: list[Broker], placed: list[list[int]], leaders: bool
) -> None:
    made = [replace(each, id=number) for number, each in enumerate(brokers)]
    partitions = [Partition("t", n, tuple(replicas)) for n, replicas in enumerate(placed)]
    able = {each.id for each in made if each.usable and not each.closed}
    try:
        plan = make_plan(made, partitions, leaders=leaders)
    except ValueError:
        assert not able
        return
    except NoRoom:
        assert max(map(len, placed)) > len(able)
        return
    for each in plan.reassignments:
        assert len(set(each.after)) == len(each.before)
        assert set(each.after) <= set(each.before) | able
        assert each.after[0] == each.before[0] or each.after[0] in able
        assert all(made[number].usable for number in each.after)
        for number in set(each.before) - set(each.after):
            assert number >= len(made) or not (made[number].usable and made[number].closed)
    assert plan.moved_replicas >= plan.fewest


@pytest.mark.requirement("SP-06")
def test_excluded_broker_is_ignored_in_the_balance_of_the_others() -> None:
    brokers = [Broker(1), Broker(2), Broker(3, closed="fenced"), Broker(4)]
    partitions = [Partition("t", n, (1, 2)) for n in range(8)]
    partitions += [Partition("t", 8, (3, 1)), Partition("t", 9, (2, 3))]
    plan = make_plan(brokers, partitions)
    after = {each.number: each.after for each in plan.reassignments}
    assert (plan.after.replicas.least, plan.after.replicas.most) == (6, 6)
    assert plan.moved_replicas == plan.fewest == 6
    assert [number for number in (8, 9) if 3 not in after.get(number, (3,))] == []
    assert (plan.after.leaders.least, plan.after.leaders.most) == (3, 3)
    assert plan.after.misplaced == 0


def test_excluded_broker_keeps_a_replica_in_a_crowded_rack() -> None:
    """Another replica of the rack moves, if one may."""
    brokers = [Broker(1, "a"), Broker(2, "a", closed="fenced"), Broker(3, "b")]
    (moved,) = make_plan(brokers, [Partition("t", 0, (1, 2))], leaders=False).reassignments
    assert moved.after == (3, 2)
    brokers[0] = replace(brokers[0], closed="fenced")
    plan = make_plan(brokers, [Partition("t", 0, (1, 2))])
    assert plan.reassignments == ()
    assert (plan.after.crowded, plan.fewest) == (1, 0)


@pytest.mark.requirement("SP-06")
def test_moved_replicas_may_share_a_rack_while_the_other_racks_are_excluded() -> None:
    brokers = [
        Broker(1, "a"), Broker(2, "a"), Broker(3, "b", closed="fenced"), Broker(4, "c", usable=False),
    ]  # fmt: skip
    (moved,) = make_plan(brokers, [Partition("t", 0, (3, 4))]).reassignments
    assert moved.after == (3, 1)
    (moved,) = make_plan(brokers, [Partition("t", 0, (1, 4))]).reassignments
    assert set(moved.after) == {1, 2}, "rack b would be better, but accepts no replicas"


@pytest.mark.requirement("SP-06")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fenced": 1}, "fenced"),
        ({"in_controlled_shutdown": 1}, "in controlled shutdown"),
        ({"cordoned_log_dirs": (UUID(int=2003),)}, "all log directories cordoned"),
    ],
)
def test_command_excludes_named_brokers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], why: str
) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*(broker(number, f"r{number}") for number in (1, 2, 3)))
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    writer.append(topic, *(partition(number, (1, 2)) for number in range(9)))
    writer.append(partition(9, (3, 1)))
    reported = md.BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=3, **change)
    writer.append(reported)
    writer.close()
    out = tmp_path / "plan.json"
    arguments = ["plan", "--log", str(tmp_path), "--output", str(out)]
    assert main(arguments) == 0
    planned = json.loads(out.read_text())["partitions"]
    assert [each for each in planned if 3 in each["replicas"]] == []
    assert f"{'excluded':20} brokers 3 ({why})" in capsys.readouterr().out
    assert main([*arguments, "--drain", "2"]) == 2
    output = capsys.readouterr().err
    assert f"3 ({why})" in output
    assert "only 1 brokers are usable" in output
