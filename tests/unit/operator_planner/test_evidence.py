"""Which failures are conclusive, which must last before they count, and which never count."""

from dataclasses import replace

import pytest

from quorum_operator.planner.evidence import circumstance, proof
from quorum_operator.planner.member_problems import member_problem
from quorum_operator.planner.observed import (
    ClaimFacts,
    Incarnation,
    NodeReport,
    PodFacts,
    StorageChoice,
    VolumeFacts,
)

NOW = 1_000.0
POD = PodFacts("q-3-1-0", "pod", created_at=900.0)
WELL = Incarnation(
    node_id=3,
    number=1,
    name="q-3-1",
    uid="u",
    resource_version="1",
    created_at=900.0,
    formation=1,
    storage=StorageChoice("1Gi", None),
    uuid="a",
    pod=POD,
    claim=ClaimFacts("data-q-3-1-0", "c", volume="pv"),
    volume=VolumeFacts("pv", hosts=("h1",)),
    report=NodeReport("a", "c1", "follower", True, True, "ok"),
)
DOWN = replace(POD, ready=False, running=False, not_ready_since=950.0)
GONE = VolumeFacts("pv", hosts=("h1",), hosts_exist=False)


def with_pod(**changes: object) -> Incarnation:
    return replace(WELL, pod=replace(DOWN, **changes), report=None)  # type: ignore[arg-type]


PROOFS = {
    "StorageFailed": with_pod(exit_code=74, exit_at=990.0),
    "VolumeFailed": replace(WELL, volume=VolumeFacts("pv", phase="Failed")),
    "VolumeLost": replace(WELL, claim=ClaimFacts("c", "c", phase="Lost")),
    "ReplicaReplaced": replace(WELL, report=NodeReport("b", "c1", "observer", True, True, "ok")),
}


@pytest.mark.parametrize("reason", PROOFS)
def test_conclusive_failures_are_recognized(reason: str) -> None:
    sign = proof(PROOFS[reason])
    assert sign is not None
    assert sign.reason == reason


def test_failure_time_is_the_end_of_the_process() -> None:
    sign = proof(PROOFS["StorageFailed"])
    assert sign is not None
    assert sign.since == 990.0


def test_failure_reported_by_the_node_is_conclusive() -> None:
    failed = replace(WELL, report=NodeReport("a", "c1", "follower", True, True, "failed", "EIO"))
    sign = proof(failed)
    assert sign is not None
    assert sign.evidence == "EIO"


NEITHER = {
    "well": WELL,
    "crash": with_pod(exit_code=137, waiting_reason="CrashLoopBackOff"),
    "bug": with_pod(exit_code=70, waiting_reason="CrashLoopBackOff"),
    "full disk": with_pod(exit_code=73, waiting_reason="CrashLoopBackOff", mount_failed_at=NOW),
    "drained": replace(WELL, pod=None, report=None),
    "cordoned": with_pod(unschedulable="0/3 nodes are available", host=None),
    "host gone, process answers": replace(WELL, volume=GONE),
    "start error": with_pod(
        waiting_reason="CrashLoopBackOff",
        exit_code=128,
        exit_reason="StartError",
        exit_message="failed to create shim task: OCI runtime create failed: memory limit too low",
    ),
    "container not created": with_pod(waiting_reason="CreateContainerError"),
    "config": with_pod(waiting_reason="CreateContainerConfigError"),
    "wrong command": with_pod(exit_code=127, exit_reason="ContainerCannotRun"),
    "mounted, and pulls": with_pod(waiting_reason="ImagePullBackOff", mount_failed_at=NOW),
    "mounted, and runs": with_pod(running=True, mount_failed_at=NOW),
    "image": with_pod(waiting_reason="ImagePullBackOff"),
    "evicted": with_pod(deleting=True, mount_failed_at=NOW),
    "claim terminating": replace(WELL, claim=ClaimFacts("c", "c", deleting=True)),
    "mounted in the end": with_pod(mount_failed_at=NOW - 500),
    "no claim yet": replace(WELL, pod=None, claim=None, volume=None, report=None),
    "not recorded yet": replace(
        WELL, uuid=None, report=NodeReport("b", "c1", "observer", True, True, "ok")
    ),
}


@pytest.mark.parametrize("case", NEITHER)
def test_observations_that_are_no_failure_are_ignored(case: str) -> None:
    assert proof(NEITHER[case]) is None
    assert circumstance(NEITHER[case], NOW) is None


CIRCUMSTANCES = {
    "VolumeNotMounted": with_pod(
        waiting_reason="ContainerCreating", mount_failed_at=NOW - 20, mount_failure="I/O error"
    ),
    "PodCannotStart": with_pod(
        waiting_reason="CreateContainerError", unusable_volume='failed to stat "pv": I/O error'
    ),
    "HostDeleted": replace(WELL, pod=None, report=None, volume=GONE),
}


@pytest.mark.parametrize("reason", CIRCUMSTANCES)
def test_circumstantial_failures_are_recognized(reason: str) -> None:
    assert proof(CIRCUMSTANCES[reason]) is None
    sign = circumstance(CIRCUMSTANCES[reason], NOW)
    assert sign is not None
    assert sign.reason == reason
    assert sign.subject


@pytest.mark.parametrize(
    ("pod", "reported"),
    [
        (
            {"waiting_reason": "CrashLoopBackOff", "exit_message": "BadConfiguration: none of b"},
            "NotReady: BadConfiguration: none of b",
        ),
        ({"exit_message": "BadConfiguration: none of b"}, "NotReady: BadConfiguration: none of b"),
        (
            {"waiting_reason": "CrashLoopBackOff", "exit_reason": "Error"},
            "NotReady: CrashLoopBackOff",
        ),
        ({"waiting_reason": "PodInitializing", "exit_message": "old"}, "NotReady: PodInitializing"),
        ({"exit_message": "before", "exit_reason": "Error", "running": True}, "NotReady: Error"),
    ],
)
def test_repeatedly_exiting_process_is_shown_with_its_message(
    pod: dict[str, object], reported: str
) -> None:
    """Such as why a backup is not restored. That it is tried again is no news."""
    assert member_problem(with_pod(**{"running": False, **pod}), NOW) == reported


@pytest.mark.parametrize(
    ("pod", "reported"),
    [
        (
            {"waiting_reason": "CreateContainerError", "waiting_message": "no such user"},
            "no such user",
        ),
        (
            {
                "waiting_reason": "CrashLoopBackOff",
                "exit_reason": "StartError",
                "exit_message": "memory limit too low",
            },
            "StartError: memory limit too low",
        ),
        ({"waiting_reason": "ImagePullBackOff"}, "ImagePullBackOff"),
    ],
)
def test_container_that_cannot_start_is_named_with_its_reason(
    pod: dict[str, object], reported: str
) -> None:
    words = member_problem(with_pod(**pod), NOW)
    assert words is not None
    assert words.startswith("CannotStart: ")
    assert reported in words


def test_lost_host_is_named_unless_the_process_answers() -> None:
    gone = replace(WELL, pod=None, report=None, volume=GONE)
    assert (member_problem(gone, NOW) or "").startswith("HostDeleted: ")
    assert member_problem(replace(WELL, volume=GONE), NOW) is None


def test_blocking_finalizers_are_named_with_their_objects() -> None:
    held = replace(WELL, pod=None, report=None, held_by=("a.example/hold", "b"))
    reported = member_problem(held, NOW)
    assert reported is not None
    assert reported.startswith("NoPod: StatefulSet/q-3-1 is being deleted")
    assert "(a.example/hold, b)" in reported
    going = with_pod(deleting=True, held_by=("a.example/hold",))
    reported = member_problem(going, NOW)
    assert reported is not None
    assert reported.startswith("PodTerminating: Pod/q-3-1-0 is being deleted")


@pytest.mark.parametrize(
    ("ends_at", "held_by", "is_said"),
    [(NOW + 20, (), False), (NOW - 59, (), False), (NOW - 60, (), True), (NOW - 60, ("x",), False)],
)
def test_pod_that_does_not_end_is_reported_with_the_way_out(
    ends_at: float, held_by: tuple[str, ...], is_said: bool
) -> None:
    hanging = with_pod(deleting=True, ends_at=ends_at, held_by=held_by, host="h1")
    reported = member_problem(hanging, NOW) or ""
    assert reported.startswith("PodTerminating")
    assert ("Restart its host h1" in reported) is is_said
    assert ("kubectl delete pod q-3-1-0 --grace-period=0 --force" in reported) is is_said
