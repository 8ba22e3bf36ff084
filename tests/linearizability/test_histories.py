"""Reads and writes on leader, followers and observers of real processes under faults, as histories.

Every history ran while something was killed, frozen, cut off or changed, and is checked by porcupine.
Then the same with a read path broken on purpose: the check has to find it.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from support.linearizability import checker, faults
from support.linearizability.broken_node import VARIABLE
from support.linearizability.clients import IMPATIENT, RETURNING
from support.linearizability.fault_run import GROUPS_PER_FAULT, VOTERS, FaultRun
from support.linearizability.history import Group
from support.linearizability.network import require_namespaces

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SHORT: tuple[faults.FaultKind, ...] = (
    faults.kill_leader,
    faults.freeze_leader,
    faults.split_leader_off,
    faults.change_voters,
    faults.reset_leader,
    faults.hand_over,
    faults.split_another_off,
)
LONG_COURSES = 7
LONG_HISTORIES = 200
MOST_FAULTS = 12
"""Which requests wait at the old leader is chance: a single fault shows the defect about every second time."""


@pytest.fixture(autouse=True)
def prepared() -> None:
    """The checker is built before the network is left: that needs the module proxy."""
    require_namespaces()
    checker.program()


def assert_linearizable(groups: list[Group], pictures: Path) -> None:
    verdicts = checker.check(groups, pictures)
    wrong = [str(verdict) for verdict in verdicts if verdict.result != "Ok"]
    assert not wrong, "\n".join(wrong)


def assert_worth_checking(groups: list[Group]) -> None:
    """Each history ran through a fault and has reads and writes, on several nodes."""
    for group in groups:
        assert group.continued_during_a_fault(), group.name
        assert any(each.write and not each.open for each in group.operations), group.name
        readers = {each.node for each in group.operations if each.read}
        assert len(readers) >= 2, f"{group.name}: reads on {readers} only"


@pytest.mark.requirement("K650-03")
def test_histories_under_faults_are_linearizable(tmp_path: Path) -> None:
    with FaultRun(tmp_path / "quorum", "short", seed=1) as course:
        for kind in SHORT:
            course.strike(kind)
        course.drain()
    assert len(course.groups) >= 20
    assert_worth_checking(course.groups)
    assert set(course.reads_by_node()) == set(course.quorum.nodes)
    assert_linearizable(course.groups, tmp_path / "pictures")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_histories_under_many_faults_are_linearizable(tmp_path: Path) -> None:
    struck: Counter[str] = Counter()
    histories = 0
    for number in range(LONG_COURSES):
        rng = random.Random(number)
        kinds = rng.sample(faults.KINDS, len(faults.KINDS))
        with FaultRun(tmp_path / f"quorum-{number}", f"course{number}", seed=number) as course:
            for kind in kinds:
                course.strike(kind)
                struck[kind.__name__] += GROUPS_PER_FAULT
            course.drain()
        histories += len(course.groups)
        assert_worth_checking(course.groups)
        assert_linearizable(course.groups, tmp_path / "pictures")
    print(f"{histories} histories: {dict(struck)}")
    assert histories >= LONG_HISTORIES
    assert set(struck) == {kind.__name__ for kind in faults.KINDS}


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        ("ask-nobody", faults.split_another_off),
        ("no-round", faults.reset_leader),
        pytest.param("no-round", faults.freeze_leader_behind_a_cut, marks=pytest.mark.long),
    ],
)
@pytest.mark.requirement("K650-03")
def test_defective_read_path_is_detected(
    broken: str, kind: faults.FaultKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, broken)
    module = "support.linearizability.broken_node"
    timeouts = (IMPATIENT,) * 4 + (RETURNING,) * 6
    found: list[checker.Verdict] = []
    with FaultRun(
        tmp_path / "quorum", broken, 5, nodes=VOTERS, module=module, timeouts=timeouts
    ) as course:
        for _ in range(MOST_FAULTS):
            groups = course.strike(kind)
            verdicts = checker.check(groups, tmp_path / "pictures")
            found = [verdict for verdict in verdicts if verdict.result == "Illegal"]
            if found:
                break
    assert found, "no history violated linearizability"
    page = Path(found[0].picture).read_text()
    assert found[0].name in str(found[0])
    assert "<svg" in page or "svg" in page
    assert "<script src" not in page, "the page loads other files"
    assert kind.__name__ in page
