"""Plans: nothing lost, racks apart, even, and hardly a move more than any plan needs."""

import json
import random
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records import metadata as md
from quorum_pipeline.__main__ import main
from quorum_pipeline.commands.plan import _partitions, _read_sizes
from quorum_pipeline.placement.cluster import Broker, Partition
from quorum_pipeline.placement.plan import Plan, make_plan
from quorum_pipeline.placement.replicas import NoRoom
from quorum_pipeline.state.moment import Moment
from support.replayed_directory import replay_directory
from support.written_log import TOPIC_ID, LogWriter, broker, partition


def cluster(
    brokers: int, racks: int, partitions: int, replicas: int, seed: int = 1
) -> tuple[list[Broker], list[Partition]]:
    """Rack aware, but placed randomly."""
    rng = random.Random(seed)
    made = [Broker(number, f"rack-{number % racks}") for number in range(brokers)]
    by_rack = [[b.id for b in made if b.rack == f"rack-{r}"] for r in range(racks)]
    placed = []
    for number in range(partitions):
        chosen = rng.sample(range(racks), replicas)
        placed.append(Partition("t", number, tuple(rng.choice(by_rack[rack]) for rack in chosen)))
    return made, placed


def after(plan: Plan, partitions: list[Partition]) -> list[tuple[int, ...]]:
    changed = {each.number: each.after for each in plan.reassignments}
    return [changed.get(each.number, each.replicas) for each in partitions]


def check(brokers: list[Broker], partitions: list[Partition], plan: Plan) -> None:
    rack = {each.id: each.rack for each in brokers}
    usable = {each.id for each in brokers if each.usable}
    racks = len({each.rack for each in brokers if each.usable})
    for before, replicas in zip(partitions, after(plan, partitions), strict=True):
        assert len(replicas) == len(set(replicas)) == len(before.replicas)
        assert set(replicas) <= usable
        if racks >= len(replicas):
            assert len({rack[each] for each in replicas}) == len(replicas)


def test_balanced_cluster_is_unchanged() -> None:
    brokers = [Broker(number, f"r{number % 3}") for number in range(6)]
    partitions = [Partition("t", n, (n % 6, (n + 1) % 6, (n + 2) % 6)) for n in range(60)]
    plan = make_plan(brokers, partitions)
    assert plan.reassignments == ()
    assert (plan.moved_replicas, plan.fewest) == (0, 0)


@pytest.mark.requirement("SP-06")
def test_drained_broker_is_emptied_and_nothing_else_moves() -> None:
    brokers, partitions = cluster(12, 4, 2_000, 3)
    settled = make_plan(brokers, partitions)
    placed = [
        Partition("t", p.number, replicas)
        for p, replicas in zip(partitions, after(settled, partitions), strict=True)
    ]
    drained = [Broker(b.id, b.rack, usable=b.id != 5) for b in brokers]
    plan = make_plan(drained, placed)
    check(drained, placed, plan)
    assert plan.before.misplaced == 500
    assert plan.after.misplaced == 0
    assert plan.fewest == 500
    assert plan.moved_replicas <= 505, "racks allow hardly ever fewer than two moves"
    assert plan.after.replicas.most - plan.after.replicas.least <= 1
    assert plan.after.leaders.most - plan.after.leaders.least <= 1


@pytest.mark.requirement("SP-06")
def test_new_brokers_get_their_share_with_the_fewest_moves() -> None:
    old, partitions = cluster(12, 4, 3_000, 3)
    settled = after(make_plan(old, partitions), partitions)
    placed = [Partition("t", n, replicas) for n, replicas in enumerate(settled)]
    brokers = [*old, *(Broker(100 + n, f"rack-{n}") for n in range(3))]
    plan = make_plan(brokers, placed)
    check(brokers, placed, plan)
    assert plan.after.replicas.most - plan.after.replicas.least <= 1
    assert plan.after.leaders.most - plan.after.leaders.least <= 1
    assert plan.moved_replicas == plan.fewest == 3 * 9000 // 15, "racks restrict no move"


@pytest.mark.requirement("SP-06")
def test_overloaded_racks_are_corrected() -> None:
    brokers = [Broker(number, f"r{number // 4}") for number in range(12)]
    partitions = [Partition("t", n, (0, 1, 2)) for n in range(100)]
    plan = make_plan(brokers, partitions)
    check(brokers, partitions, plan)
    assert plan.before.crowded == 100
    assert plan.after.crowded == 0
    assert (plan.after.replicas.least, plan.after.replicas.most) == (25, 25)
    assert plan.moved_replicas <= 235


def test_bytes_are_balanced_with_the_same_number_of_moves() -> None:
    brokers, partitions = cluster(9, 3, 900, 2)
    settled = after(make_plan(brokers, partitions), partitions)
    heavy = [Partition("t", n, r, 1000 if 0 in r and n % 2 else 10) for n, r in enumerate(settled)]
    light = [Partition("t", n, r) for n, r in enumerate(settled)]
    more = [*brokers, Broker(9, "rack-0"), Broker(10, "rack-1"), Broker(11, "rack-2")]
    with_sizes, without = make_plan(more, heavy), make_plan(more, light)
    assert with_sizes.moved_replicas == without.moved_replicas
    assert with_sizes.before.bytes is not None
    assert with_sizes.after.bytes is not None
    assert with_sizes.after.bytes.most < 0.8 * with_sizes.before.bytes.most
    held = [0] * len(more)
    for replicas, each in zip(after(without, light), heavy, strict=True):
        for number in replicas:
            held[number] += each.size_bytes or 0
    assert with_sizes.after.bytes.most < 0.9 * max(held), (
        "without sizes the bytes are balanced by coincidence"
    )
    sizes = {each.number: each.size_bytes or 0 for each in heavy}
    moved = sum(sizes[each.number] * each.moved for each in with_sizes.reassignments)
    assert with_sizes.moved_bytes == moved


def test_partition_with_two_moving_replicas_is_copied_twice() -> None:
    brokers = [Broker(number, usable=number > 2) for number in range(1, 5)]
    plan = make_plan(brokers, [Partition("t", 0, (1, 2), 100)])
    assert (plan.moved_replicas, plan.moved_bytes) == (2, 200)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 40), st.integers(1, 3), st.data())
@pytest.mark.requirement("SP-06")
def test_invariants_hold_for_any_cluster(
    brokers: int, racks: int, count: int, replicas: int, data: st.DataObject
) -> None:
    made = [Broker(n, f"r{data.draw(st.integers(0, racks - 1))}") for n in range(brokers)]
    usable = data.draw(st.sets(st.integers(0, brokers - 1), min_size=1))
    made = [Broker(each.id, each.rack, each.id in usable) for each in made]
    ids = st.lists(st.integers(0, brokers), min_size=1, max_size=replicas, unique=True)
    placed = [Partition("t", n, tuple(data.draw(ids))) for n in range(count)]
    try:
        plan = make_plan(made, placed)
    except NoRoom:
        assert max(len(each.replicas) for each in placed) > len(usable)
        return
    for before, now in zip(placed, after(plan, placed), strict=True):
        assert len(set(now)) == len(before.replicas)
        assert set(now) <= usable
    assert plan.after.misplaced == 0
    assert plan.after.crowded <= plan.before.crowded + plan.before.misplaced


def random_cluster(seed: int) -> tuple[list[Broker], list[Partition]]:
    """Few brokers in racks of different sizes, some of them drained or fenced; replicas are placed without regard to racks."""
    rng = random.Random(seed)
    count, racks = rng.randint(1, 12), rng.randint(1, 5)
    brokers = [
        Broker(n, f"r{rng.randrange(racks)}", rng.random() > 0.1, "fenced" * (rng.random() < 0.1))
        for n in range(count)
    ]
    partitions = [
        Partition(
            "t",
            number,
            tuple(rng.sample(range(count), rng.randint(1, min(count, 4)))),
            rng.randrange(1000) if seed % 2 else None,
        )
        for number in range(rng.randint(0, 60))
    ]
    return brokers, partitions


def check_second_plan_is_empty(seeds: range) -> None:
    planned = 0
    for seed in seeds:
        brokers, partitions = random_cluster(seed)
        try:
            first = make_plan(brokers, partitions)
        except (NoRoom, ValueError):
            continue
        placed = zip(partitions, after(first, partitions), strict=True)
        second = make_plan(brokers, [replace(each, replicas=now) for each, now in placed])
        assert second.reassignments == (), f"seed {seed}"
        assert second.before == first.after, f"seed {seed}"
        planned += 1
    assert planned > len(seeds) / 2


def test_plan_over_the_result_of_a_plan_is_empty() -> None:
    check_second_plan_is_empty(range(400))


@pytest.mark.long
def test_plan_over_the_result_of_a_plan_is_empty_for_many_clusters() -> None:
    check_second_plan_is_empty(range(400, 20_000))


def test_no_plan_without_enough_brokers() -> None:
    with pytest.raises(ValueError, match="no broker is usable"):
        make_plan([Broker(1, usable=False)], [Partition("t", 0, (1,))])
    with pytest.raises(NoRoom, match="3 replicas, but only 2 brokers"):
        make_plan([Broker(1), Broker(2)], [Partition("t", 0, (1, 2, 3))])


def test_placement_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*(broker(number, f"r{number}") for number in (1, 2, 3)))
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    writer.append(topic, *(partition(number, (1, 2)) for number in range(9)))
    writer.close()
    out, back = tmp_path / "plan.json", tmp_path / "back.json"
    arguments = ["plan", "--log", str(tmp_path), "--output", str(out), "--rollback", str(back)]
    assert main(arguments) == 0
    document = json.loads(out.read_text())
    assert document["version"] == 1
    counts = [0] * 4
    for each in document["partitions"]:
        assert each["topic"] == "orders"
        assert len(set(each["replicas"])) == 2
    changed = {each["partition"]: each["replicas"] for each in document["partitions"]}
    for number in range(9):
        for replica in changed.get(number, [1, 2]):
            counts[replica] += 1
    assert counts == [0, 6, 6, 6]
    undone = {
        each["partition"]: each["replicas"] for each in json.loads(back.read_text())["partitions"]
    }
    assert undone == {number: [1, 2] for number in changed}
    output = capsys.readouterr().out
    assert "6 replicas move" in output
    assert "0 to 9, mean 6.0  ->  6 to 6, mean 6.0" in output
    assert main([*arguments, "--drain", "2"]) == 0
    drained = {
        each["partition"]: each["replicas"] for each in json.loads(out.read_text())["partitions"]
    }
    assert sorted(map(sorted, drained.values())) == [[1, 3]] * 9
    assert main([*arguments, "--keep-leaders"]) == 0
    for each in json.loads(out.read_text())["partitions"]:
        assert set(each["replicas"]) != {1, 2}, "replicas only changed places"
    assert main([*arguments, "--drain", "8"]) == 2
    assert "broker 8 is not registered" in capsys.readouterr().err
    kept = out.read_text()
    assert main([*arguments[:-1], f"{tmp_path}/./{out.name}"]) == 2
    assert f"{out} is specified twice" in capsys.readouterr().err
    assert out.read_text() == kept, "the plan was replaced by what undoes it"
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("topic,partition,size\n")
    assert main([*arguments, "--sizes", str(sizes)]) == 2
    assert "no column 'bytes'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"topic,partition,bytes\norders,0\n", "line 2: "),
        (b"topic,partition,bytes\norders,0,-5\n", "line 2: -5 is not a number of bytes"),
        (b"topic,partition,bytes\norders,0,1\norders,x,1\n", "line 3: "),
        (b"\xff\xfe,partition,bytes\n", "line 0: 'utf-8' codec can't decode"),
        (b"", "has no column 'bytes' in its first line"),
    ],
)
def test_sizes_that_can_not_be_read_are_reported(
    text: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_bytes(text)
    plan = ["plan", "--log", str(tmp_path), "--output", str(tmp_path / "plan.json")]
    assert main([*plan, "--sizes", str(sizes)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"quorum-pipeline plan: {sizes}")
    assert says in line


def test_racks_sizes_and_running_moves_come_from_the_state(tmp_path: Path) -> None:
    """Two racks with two brokers each: replicas have to be apart. What is being removed is not counted any more."""
    writer = LogWriter(tmp_path)
    writer.append(*(broker(number, "ab"[number % 2]) for number in (1, 2, 3, 4)))
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    writer.append(topic, *(partition(number, (1, 3)) for number in range(8)))
    leaving = md.PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=(1, 2, 3), isr=(1, 2, 3), adding_replicas=(2,),
        removing_replicas=(3,), directories=tuple(UUID(int=2000 + n) for n in (1, 2, 3)),
    )  # fmt: skip
    writer.append(leaving)
    writer.close()
    sizes, out = tmp_path / "sizes.csv", tmp_path / "plan.json"
    rows = "".join(f"orders,{n},{10 ** (n // 2)}\n" for n in range(8))
    sizes.write_text(f"topic,partition,bytes\n{rows}")
    arguments = ["plan", "--log", str(tmp_path), "--output", str(out)]
    assert main(arguments) == 0
    placed = {
        each["partition"]: each["replicas"] for each in json.loads(out.read_text())["partitions"]
    }
    assert placed.keys() >= {*range(1, 8)}, "they are crowded in one rack"
    assert all(sum(replicas) % 2 == 1 for replicas in placed.values())
    state = replay_directory(tmp_path, Moment())
    found = list(_partitions(state, _read_sizes(sizes)))
    assert [each.size_bytes for each in found] == [10 ** (n // 2) for n in range(8)]
    assert found[0].replicas == (1, 2)
