"""What counts as settled, what counts as harm, and which rounds count for a tree."""

import copy
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from support.in_memory_kube_api import HealthyNodes, reconciler, repeat, running_quorum
from support.kind_env.quorum import described
from support.random_changes.act import FinalCondition
from support.random_changes.drift import drifted, essence, of_members
from support.random_changes.harm import Sample, Stop, harm, stops
from support.random_changes.settled import complaints, unsettled
from support.requirement_inputs import Inputs
from support.seeded_rounds import PassedRound, PassedRounds

_KEYS = [(number, f"u{number}") for number in (1, 2, 3)]
_DOCUMENT: dict[str, Any] = {
    "leaderId": 1,
    "leaderUuid": "u1",
    "leaderEpoch": 4,
    "highWatermark": 10,
    "pendingChange": False,
    "ownEpochCommitted": True,
    "votersPosition": {"offset": 7, "epoch": 4, "committed": True},
    "formed": True,
    "voters": [{"id": i, "uuid": u, "fetching": True, "caughtUp": True} for i, u in _KEYS],
}
_RESOURCE: dict[str, Any] = {
    "metadata": {"generation": 3},
    "status": {
        "observedGeneration": 3,
        "phase": "Ready",
        "plan": {"step": "Nothing", "reason": "3 voters, as wanted"},
        "members": [{"id": i, "uuid": u, "voter": True} for i, u in _KEYS],
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "AllVotersLive", "message": ""},
            {"type": "Degraded", "status": "False", "reason": "AllMembersHealthy", "message": ""},
        ],
    },
}


def test_three_live_voters_with_nothing_to_do_have_converged() -> None:
    assert unsettled(_RESOURCE, described(_DOCUMENT), 3, []) == []


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("metadata", "generation"), 4, "generation"),
        (("status", "phase"), "Scaling", "phase Scaling"),
        (("status", "plan", "step"), "Wait", "plan Wait"),
        (("status", "conditions", 0, "status"), "False", "Ready=False"),
        (("status", "conditions", 1, "status"), "True", "Degraded=True"),
        (("status", "conditions", 1, "type"), "SomethingNew", None),
        (("status", "members", 2, "uuid"), "u9", "the status names voters"),
    ],
)
def test_every_deviation_is_reported(
    path: tuple[Any, ...], value: object, says: str | None
) -> None:
    resource: Any = copy.deepcopy(_RESOURCE)
    inner = resource
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    reported = unsettled(resource, described(_DOCUMENT), 3, [])
    assert (reported == []) if says is None else any(says in each for each in reported)


def test_missing_voters_leader_and_objects_are_reported() -> None:
    assert "wanted are 5" in " ".join(unsettled(_RESOURCE, described(_DOCUMENT), 5, []))
    assert unsettled(_RESOURCE, None, 3, []) == ["no majority confirms a leader"]
    assert unsettled(_RESOURCE, described(_DOCUMENT), 3, ["config is missing"]) == [
        "config is missing"
    ]


def _live(at: float, *names: str, size: int = 3) -> Sample:
    return Sample(at, size, frozenset(names))


def test_stop_that_leaves_a_majority_is_harmless() -> None:
    samples = [_live(10.0, "q-1-1", "q-2-1", "q-3-1")]
    assert harm(samples, [Stop(10.5, "RestartMember", "q-1-1", "")]) == []


def test_stop_of_one_of_the_last_two_of_three_voters_is_harmful() -> None:
    samples = [_live(at, "q-1-1", "q-2-1") for at in (1.0, 5.0, 10.0)]
    (reported,) = harm(samples, [Stop(10.5, "ScaleToZero", "q-1-1", "its disk failed")])
    assert "left ['q-2-1'] live of 3 voters" in reported


def test_stopping_a_dead_voter_is_harmless() -> None:
    samples = [_live(10.0, "q-1-1", "q-2-1")]
    assert harm(samples, [Stop(10.5, "ScaleToZero", "q-3-1", "its disk failed")]) == []


def test_very_recent_outage_is_not_attributed_to_the_operator() -> None:
    samples = [_live(8.0, "q-1-1", "q-2-1", "q-3-1"), _live(10.0, "q-1-1", "q-2-1")]
    assert harm(samples, [Stop(10.5, "RestartMember", "q-1-1", "")]) == []


def test_earlier_stops_by_the_operator_count_as_dead_voters() -> None:
    samples = [_live(at, "q-1-1", "q-2-1", "q-3-1") for at in (8.0, 9.0, 10.0)]
    both = [Stop(9.5, "RestartMember", "q-3-1", ""), Stop(10.5, "RestartMember", "q-1-1", "")]
    assert len(harm(samples, both)) == 1


def test_voter_that_started_since_the_last_sample_is_live() -> None:
    restart = Stop(10.5, "RestartMember", "q-1-1", "")
    before = [_live(10.0, "q-1-1", "q-2-1")]
    assert harm([*before, _live(11.0, "q-2-1", "q-3-1")], [restart]) == []
    assert len(harm([*before, _live(11.0, "q-2-1"), _live(12.0, "q-3-1")], [restart])) == 1


def test_voter_that_has_just_started_is_not_known_yet() -> None:
    restart = Stop(10.5, "RestartMember", "q-1-1", "")
    later = [_live(10.0, "q-1-1", "q-2-1"), _live(10.4, "q-1-1", "q-2-1")]
    assert harm([_live(9.6, "q-2-1"), *later], [restart]) == []
    assert len(harm([_live(9.4, "q-1-1", "q-2-1"), *later], [restart])) == 1
    assert harm([_live(9.4, "q-2-1"), _live(9.9, "q-2-1"), *later], [restart]) == []


def test_one_of_two_voters_may_restart_while_the_other_is_live() -> None:
    samples = [_live(10.0, "q-1-1", "q-2-1", size=2)]
    assert harm(samples, [Stop(10.5, "RestartMember", "q-1-1", "")]) == []
    assert len(harm(samples, [Stop(10.5, "ScaleToZero", "q-1-1", "")])) == 1
    alone = [_live(at, "q-1-1", size=2) for at in (1.0, 10.0)]
    assert len(harm(alone, [Stop(10.5, "RestartMember", "q-1-1", "")])) == 1


def test_single_voter_may_restart_and_must_not_be_scaled_away() -> None:
    samples = [_live(10.0, "q-1-1", size=1)]
    assert harm(samples, [Stop(10.5, "RestartMember", "q-1-1", "")]) == []
    assert len(harm(samples, [Stop(10.5, "ScaleToZero", "q-1-1", "")])) == 1


def test_only_executed_steps_that_end_a_process_are_stops() -> None:
    steps = [
        {"at": 1.0, "step": "ScaleToZero", "reason": "q-1-1 failed (X)", "changed": True},
        {"at": 2.0, "step": "ScaleToZero", "reason": "q-2-1 failed (X)", "changed": False},
        {"at": 3.0, "step": "AddVoter", "reason": "q-3-1 has caught up", "changed": True},
        {
            "at": 4.0,
            "step": "ScaleToZero",
            "reason": "q-2-1 must not come back: the quorum is recovered from q-1-1",
            "changed": True,
        },
    ]
    assert stops(steps) == [Stop(1.0, "ScaleToZero", "q-1-1", "q-1-1 failed (X)")]


def test_final_state_is_accepted_only_if_its_condition_is_true_and_has_a_remedy() -> None:
    ending = FinalCondition("DiskFull", "make room", lambda operations, message: message)
    assert ending.holds({"status": "True", "message": "full: make room"})
    assert not ending.holds({"status": "False", "message": "full: make room"})
    assert not ending.holds({"status": "True", "message": "full"})


def test_rounds_count_for_their_source_tree(tmp_path: Path) -> None:
    file = tmp_path / "state" / "anything.json"
    before, after = PassedRounds(file, "before"), PassedRounds(file, "after")
    before.add(7, PassedRound(12.5, 900, ("DiskFull",)))
    before.add(8, PassedRound(3.0, 800, ()))
    assert before.passed() == {
        7: PassedRound(12.5, 900, ("DiskFull",)),
        8: PassedRound(3.0, 800, ()),
    }
    assert after.passed() == {}
    after.add(7, PassedRound(1.0, 1, ()))
    assert after.passed() == {7: PassedRound(1.0, 1, ())}
    assert before.passed() == {}


def test_rounds_of_several_processes_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "rounds.json"
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(_add_twenty, [file] * 2, range(2)))
    assert list(PassedRounds(file, "tree").passed()) == list(range(40))


def _add_twenty(file: Path, first: int) -> None:
    for number in range(20):
        PassedRounds(file, "tree").add(first + 2 * number, PassedRound(1.0, 1, ()))


def test_source_tree_is_identified_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.py").write_text("a = 1\n")
    (tmp_path / "two.py").write_text("b = 1\n")
    first = Inputs(tmp_path).under("one").inputs
    (tmp_path / "two.py").write_text("b = 2\n")
    assert Inputs(tmp_path).under("one").inputs == first
    (tmp_path / "one" / "a.py").write_text("a = 2\n")
    assert Inputs(tmp_path).under("one").inputs != first


_SERVICE: dict[str, Any] = {
    "metadata": {
        "labels": {"app.kubernetes.io/instance": "q", "team": "any"},
        "ownerReferences": [{"uid": "u1"}],
    },
    "spec": {"selector": {"app": "q"}, "ports": [{"port": 1}]},
}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("metadata", "labels"), {}, "labels"),
        (("metadata", "ownerReferences"), [], "owners"),
        (("spec", "selector"), {"app": "other"}, "spec"),
        (("data",), {"a": "# by-hand"}, "marked"),
        (("metadata", "labels", "team"), "another", ""),
        (("spec", "clusterIP"), "10.0.0.9", ""),
    ],
)
def test_object_drift_is_reported(path: tuple[str, ...], value: object, says: str) -> None:
    found: Any = copy.deepcopy(_SERVICE)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    reported = drifted({"service": essence(_SERVICE)}, {"service": found})
    assert says in " ".join(reported) if says else reported == []
    assert drifted({"service": essence(_SERVICE)}, {"service": None}) == ["service is missing"]


def test_member_drift_is_reported() -> None:
    labels = {"app.kubernetes.io/instance": "q"}

    def of(replicas: int, template: str = "", **labels: str) -> dict[str, Any]:
        spec = {"replicas": replicas, "template": template}
        return {"metadata": {"name": "q-1-1", "labels": labels}, "spec": spec}

    assert of_members([of(1, **labels)], [], labels) == []
    assert of_members([of(0)], [], labels) == [], "a removed member"
    assert "no labels" in of_members([of(1)], [], labels)[0]
    assert "2 replicas" in of_members([of(2, **labels)], [], labels)[0]
    assert "by hand" in of_members([of(1, "by-hand", **labels)], [], labels)[0]
    pod = {"metadata": {"name": "q-1-1-0", "labels": {}}, "spec": {}}
    assert "Pod q-1-1-0" in of_members([], [pod], labels)[0]
    pod["metadata"]["labels"] = labels
    assert of_members([], [pod], labels) == ["Pod q-1-1-0 has no StatefulSet"]
    assert of_members([of(1, **labels)], [pod], labels) == []


def test_conditions_of_a_healthy_quorum_are_no_deviation() -> None:
    """Checked with the operator's own reconcile: a new condition must be classified here as good or bad when true."""
    api = running_quorum(3)
    repeat(reconciler(api, HealthyNodes(3)), 2)
    assert api.status["phase"] == "Ready"
    assert complaints(api.resource) == []
