"""Rounds of random changes on a modelled cluster: they settle, are repeatable, and a defect of the operator or of the model shows."""

import threading
import time

import pytest

from quorum_operator.planner.observed import LoneClaim
from support.modelled_cluster.__main__ import DENSE
from support.modelled_cluster.playing import play_round
from support.modelled_cluster.raft import ModelledQuorum
from support.modelled_cluster.volumes import Replica
from support.random_changes.act import Drawn
from support.random_changes.catalogue import DRAWN, named
from support.random_changes.drawing import Round, draw
from support.seeded_rounds import RoundFailed, lines_of_another_process

_SHORT = (3, 13, 24, 27)
_LONG = range(1, len(DRAWN) + 1)
"""Each act is the first one of a round."""


def test_short_set_of_rounds_settles() -> None:
    for seed in _SHORT:
        play_round(draw(seed, DRAWN), _silent)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dense", [False, True])
def test_every_act_settles_among_others(dense: bool) -> None:
    failures = []
    for seed in _LONG:
        plan = draw(seed, DRAWN, DENSE) if dense else draw(seed, DRAWN)
        try:
            play_round(plan, _silent)
        except RoundFailed as failure:
            failures.append(str(failure))
    assert not failures, "\n\n".join(failures[:5])


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_act_that_destroys_no_voter_leaves_the_only_one() -> None:
    """With `deletionPolicy: Delete` a deleted StatefulSet takes its claim with it."""
    failures = []
    for each in DRAWN:
        if each.destroys == 0 and each.wants is None and not each.endings and not each.alone:
            lasts_s = each.lasts_s and each.lasts_s[0]
            plan = Round(1, 1, "Auto", "Delete", "None", (Drawn(each, 1.0, lasts_s, 0, True, 0),))
            try:
                play_round(plan, _silent)
            except RoundFailed as failure:
                failures.append(f"{each.name}: {failure}")
    assert not failures, "\n\n".join(failures[:5])


def test_same_seed_gives_the_same_story_in_another_process() -> None:
    program = (
        "from support.modelled_cluster.playing import play_round\n"
        "from support.random_changes.catalogue import DRAWN\n"
        "from support.random_changes.drawing import draw\n"
        "print(play_round(draw(5, DRAWN), print))"
    )
    story: list[str] = []
    passed = play_round(draw(5, DRAWN), story.append)
    assert lines_of_another_process(program) == [*story, str(passed)]


def test_another_thread_keeps_the_real_clock() -> None:
    """Threads of earlier tests go on in the same process, such as the ones of a Spark driver."""
    waited: list[BaseException | float] = []
    stop = threading.Event()

    def wait() -> None:
        while not stop.is_set():
            began = time.time()
            try:
                time.sleep(0.005)
            except BaseException as error:
                waited.append(error)
                return
            waited.append(time.time() - began)

    other = threading.Thread(target=wait)
    other.start()
    try:
        assert play_round(draw(3, DRAWN), _silent)
    finally:
        stop.set()
        other.join()
    assert waited
    assert all(isinstance(each, float) and 0.0 < each < 60.0 for each in waited), waited[-1]


def _silent(text: str) -> None:
    """Only failures are told."""


def _round(*acts: tuple[str, float, int]) -> Round:
    """Acts by name, with their times and choices, on the leader."""
    drawn = tuple(
        Drawn(named(name), at_s, None, rank=0, leader=True, choice=choice)
        for name, at_s, choice in acts
    )
    return Round(1, 3, "Auto", "Retain", "Preferred", drawn)


LEADER_ON_A_TERMINATING_CLAIM = _round(("delete-claim", 1.0, 0), ("orphan-set", 1.0, 0))


def test_leader_without_a_set_on_a_terminating_claim_is_replaced() -> None:
    play_round(LEADER_ON_A_TERMINATING_CLAIM, _silent)


def test_round_fails_while_nobody_can_call_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect that the round before showed."""
    monkeypatch.setattr(LoneClaim, "is_going", property(lambda each: each.claim.deleting))
    with pytest.raises(RoundFailed, match="not settled"):
        play_round(LEADER_ON_A_TERMINATING_CLAIM, _silent)


def test_founder_whose_disk_was_emptied_founds_nothing_and_is_replaced() -> None:
    """Its pod has the arguments of the formation; a mark in an emptyDir says that it had a directory."""
    log: list[str] = []
    play_round(_round(("empty-disk", 1.0, 0)), log.append)
    assert any("emptied the disk of q-1-1" in each for each in log)


def test_operator_starts_while_there_is_a_limit_range() -> None:
    acts = (("limit-range", 1.0, 12.0), ("operator-away", 2.0, 4.0))
    drawn = (Drawn(named(name), at_s, lasts_s, 0, True, 0) for name, at_s, lasts_s in acts)
    assert play_round(Round(1, 3, "Auto", "Retain", "Preferred", tuple(drawn)), _silent)


def test_container_starts_again_on_a_volume_whose_claim_was_deleted() -> None:
    """The volume stays mounted while the pod exists."""
    play_round(_round(("unprotect-claim", 1.0, 0), ("kill-9", 1.0, 0)), _silent)


def test_field_is_corrected_although_there_is_no_pod_to_delete() -> None:
    """`retire` with a quota for pods: there is no pod of the new member."""
    retire = Drawn(named("quota-left"), 1.0, None, 0, True, 217)
    pull = Drawn(named("pull-always"), 3.0, 4.0, 3, False, 0)
    log: list[str] = []
    assert play_round(Round(1, 3, "Auto", "Retain", "Preferred", (retire, pull)), log.append)
    assert any("pull-always: over" in each for each in log), log


def test_operator_starts_again_beside_a_quota_of_another_namespace() -> None:
    quota = Drawn(named("quota-left"), 1.0, None, 0, True, 217)
    delete = Drawn(named("delete-operator-pod"), 2.0, None, 0, True, 0)
    assert play_round(Round(1, 3, "Auto", "Retain", "Preferred", (quota, delete)), _silent)


@pytest.fixture
def quorum() -> ModelledQuorum:
    found = ModelledQuorum("c1", 3, lambda one, other: True)
    found.found(Replica(1, "u1", "c1"))
    return found


def test_second_formation_is_a_problem_of_the_round(quorum: ModelledQuorum) -> None:
    assert not quorum.problems
    quorum.found(Replica(1, "u1", "c1"))
    assert "founds the cluster c1 again" in quorum.problems[0]


def test_leader_without_committed_records_is_a_problem_of_the_round(quorum: ModelledQuorum) -> None:
    (key,) = quorum.voters
    quorum.start(key, Replica(1, "u1", "c1", end=5, epoch=1), 0.0)
    quorum.committed = 9
    quorum.step(10.0)
    assert "5 of 9" in quorum.problems[0]
