"""A failed disk is replaced by replica UUID automatically; other failures cause no replacement."""

import signal
from collections.abc import Callable

import pytest

from support.envtest.environment import Env
from support.envtest.kube_api import ApiError, Json
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.quorum import Described
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.usefixtures("operator")]

_QUIET_S = 5.0
_STORAGE_FAILED = 74
_TOO_MANY = 429
_EAGER = {"debounceSeconds": 1, "maxReplacementsPerHour": 60}
"""A short debounce makes a test of "no move" strict: what could count would count soon."""


def unmoved(quorum: ApiServerQuorum, before: Described) -> Callable[[], bool]:
    """Nothing was created, latched or scaled, and the voters are the same."""
    incarnations = quorum.incarnations()

    def holds() -> bool:
        now = quorum.describe()
        same_voters = now is None or now.keys == before.keys
        return same_voters and quorum.incarnations() == incarnations and not quorum.latched()

    return holds


@pytest.mark.long
@pytest.mark.requirement("OP-04")
@pytest.mark.parametrize("of_leader", [False, True], ids=["follower", "leader"])
def test_failed_disk_is_replaced_by_another_uuid_under_the_same_id(
    env: Env, of_leader: bool
) -> None:
    quorum = env.create(3, disks=True)
    before = quorum.wait_ready(3)
    offset, claims = quorum.last_voters_offset(), quorum.claims_by_uid()
    load = env.start_load(quorum)
    failed = quorum.fail_disk(quorum.voter(leader=of_leader, described=before))
    after = quorum.wait_replaced(failed, 3)
    node_id = failed.key[0]
    assert {v.id for v in after.voters} == {v.id for v in before.voters}
    assert before.keys - after.keys == {failed.key}
    assert sorted(quorum.steps_since(offset)) == [f"+{node_id}", f"-{node_id}"]
    assert quorum.latched() == {f"q-{node_id}-1"}
    assert quorum.incarnations()[f"q-{node_id}-1"] == 0
    assert claims.items() < quorum.claims_by_uid().items(), "the failed volume is kept"
    (repair,) = quorum.status()["repairs"]
    assert (repair["id"], repair["fromUuid"]) == failed.key
    assert repair["reason"] == "StorageFailed"
    env.prove_nothing_lost(load)


@pytest.mark.long
@pytest.mark.requirement("OP-04")
@pytest.mark.parametrize(("order", "signs"), [("AddFirst", "+-"), ("RemoveFirst", "-+")])
def test_replacement_order_is_configurable(env: Env, order: str, signs: str) -> None:
    quorum = env.create(3, disks=True, replacementOrder=order)
    offset = quorum.last_voters_offset()
    load = env.start_load(quorum)
    failed = quorum.fail_disk(quorum.voter(leader=False))
    quorum.wait_replaced(failed, 3)
    assert quorum.steps_since(offset) == [f"{sign}{failed.key[0]}" for sign in signs]
    env.prove_nothing_lost(load)


@pytest.mark.long
@pytest.mark.requirement("OP-04")
def test_disk_that_recovers_after_its_replacement_stays_removed(env: Env) -> None:
    quorum = env.create(3, disks=True)
    failed = quorum.fail_disk(quorum.voter(leader=False))
    wait_for("the failure is latched", quorum.latched, timeout_s=30, seen=quorum.summary)
    quorum.revive_disk(failed)
    after = quorum.wait_replaced(failed, 3)
    name = failed.pod.removesuffix("-0")

    def out() -> bool:
        now = quorum.describe()
        return (now is None or now.keys == after.keys) and quorum.incarnations()[name] == 0

    stays("the revived replica is out", out, for_s=_QUIET_S)


@pytest.mark.long
def test_second_disk_failure_during_the_first_replacement_is_repaired(env: Env) -> None:
    quorum = env.create(5, disks=True)
    before = quorum.wait_ready(5)
    offset = quorum.last_voters_offset()
    victims = [v for v in before.voters if v.id != before.leader_id][:2]
    first = quorum.fail_disk(victims[0])
    wait_for("a successor is made", lambda: len(quorum.incarnations()) == 6, timeout_s=30)
    second = quorum.fail_disk(victims[1])
    quorum.wait_replaced(first, 5)
    after = quorum.wait_replaced(second, 5)
    assert before.keys - after.keys == {first.key, second.key}
    assert len(quorum.steps_since(offset)) == 4
    assert len(quorum.incarnations()) == 7, "no extra replacement"


@pytest.mark.long
@pytest.mark.requirement("OP-07")
def test_two_failed_disks_of_three_lose_the_quorum_and_no_object_is_changed(
    env: Env, operator: OperatorProcess
) -> None:
    quorum = env.create(3, disks=True, repair=_EAGER)
    before = quorum.wait_ready(3)
    incarnations, claims = quorum.incarnations(), quorum.claims_by_uid()
    survivor, *victims = sorted(before.voters, key=lambda v: v.id)
    pod = quorum.pod_of(survivor.id, survivor.uuid)
    history = quorum.fetch_from(pod, "/v1/voter-history")["history"]
    # Detected at once: an idle replica may detect its failed disk only after the other was replaced.
    operator.kill()
    failed = [quorum.fail_disk(voter) for voter in victims]
    wait_for(
        "both processes have ended",
        lambda: all(quorum.exit_code(each.pod) == _STORAGE_FAILED for each in failed),
        timeout_s=30,
    )
    operator.start()
    quorum.wait_phase("QuorumLost", timeout_s=MOVE_TIMEOUT_S)

    def kept() -> bool:
        return quorum.claims_by_uid() == claims and quorum.incarnations() == incarnations

    stays("everything is kept", kept, for_s=_QUIET_S)
    assert quorum.condition_is("QuorumLost")
    end_offset = quorum.fetch_from(pod, "/v1/node")["logEndOffset"]

    def told() -> list[Json] | None:
        found: list[Json] = (quorum.status().get("quorumLoss") or {}).get("replicas", [])
        return found if found and found[0].get("endOffset") == end_offset else None

    left, *lost = wait_for(
        "the survivor's log is reported", told, timeout_s=30, seen=quorum.summary
    )
    assert left["uuid"] == survivor.uuid
    assert {(each["id"], each["uuid"]) for each in lost} == {each.key for each in failed}
    assert {each["volume"] for each in lost} == {each.volume for each in failed}
    assert all("Failed: StorageFailed" in each["lost"] for each in lost)
    # Posted beside the status, in no order.
    wait_for(
        "the event",
        lambda: [e for e in env.events("q") if e["reason"] == "QuorumLost"],
        timeout_s=30,
    )
    assert quorum.fetch_from(pod, "/v1/voter-history")["history"] == history


@pytest.mark.long
def test_crashed_process_is_restarted_and_no_member_is_replaced(env: Env) -> None:
    quorum = env.create(3, repair=_EAGER)
    before = quorum.wait_ready(3)
    holds = unmoved(quorum, before)
    for _ in range(3):
        leader = quorum.voter(leader=True)
        pod = quorum.pod_of(leader.id, leader.uuid)
        # The founder's pod may be made anew: its template changes once the quorum is formed.
        starts = quorum.starts().items()
        quorum.send(pod, signal.SIGKILL)
        wait_for("a restart", lambda: quorum.starts().items() - starts, timeout_s=20)  # noqa: B023
        quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S)
    stays("no move for a crash", holds, for_s=_QUIET_S)
    assert quorum.wait_ready(3).keys == before.keys


@pytest.mark.long
def test_frozen_process_is_not_treated_as_a_failed_disk(env: Env) -> None:
    quorum = env.create(3, repair=_EAGER)
    before = quorum.wait_ready(3)
    holds = unmoved(quorum, before)
    victim = quorum.voter(leader=True)
    pod = quorum.pod_of(victim.id, victim.uuid)
    quorum.send(pod, signal.SIGSTOP)
    stays("no move for a process that hangs", holds, for_s=_QUIET_S)
    quorum.send(pod, signal.SIGCONT)
    assert quorum.wait_ready(3).keys == before.keys


@pytest.mark.long
def test_drained_node_causes_no_replacement(env: Env) -> None:
    quorum = env.create(3, repair=_EAGER)
    before = quorum.wait_ready(3)
    victim = quorum.voter(leader=False)
    pod = quorum.pod_of(victim.id, victim.uuid)
    holds = unmoved(quorum, before)
    path = kube.core(env.namespace, "pods", pod)
    worker = f"{kube.NODES}/{env.api.get(path)['spec']['nodeName']}"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    env.api.merge(worker, {"spec": {"unschedulable": True}})
    try:
        wait_for(
            "the disruption budget allows it",
            lambda: _evicted(env, path, eviction),
            timeout_s=20,
        )
        stays("no move for a drained worker", holds, for_s=_QUIET_S)
    finally:
        env.api.merge(worker, {"spec": {"unschedulable": None}})
    assert quorum.wait_ready(3).keys == before.keys


def _evicted(env: Env, path: str, eviction: dict[str, object]) -> bool:
    """False while the disruption budget refuses."""
    try:
        return env.api.create(f"{path}/eviction", eviction).get("status") == "Success"
    except ApiError as error:
        if error.status != _TOO_MANY:
            raise
        return False


@pytest.mark.long
def test_unschedulable_pod_causes_no_replacement(env: Env) -> None:
    quorum = env.create(3, repair=_EAGER)
    before = quorum.wait_ready(3)
    victim = quorum.voter(leader=False)
    pod = quorum.pod_of(victim.id, victim.uuid)
    holds = unmoved(quorum, before)
    env.cluster.run(lambda: env.cluster.kubelet.hold(env.namespace, pod))
    env.api.delete(kube.core(env.namespace, "pods", pod))
    stays("no move for a pending pod", holds, for_s=_QUIET_S)
    env.cluster.run(lambda: env.cluster.kubelet.hold(env.namespace, pod, held=False))
    assert quorum.wait_ready(3).keys == before.keys


@pytest.mark.long
def test_member_on_a_deleted_node_is_replaced(env: Env) -> None:
    quorum = env.create(3)
    before = quorum.wait_ready(3)
    victim = quorum.voter(leader=False)
    pod = quorum.pod_of(victim.id, victim.uuid)
    worker = env.api.get(kube.core(env.namespace, "pods", pod))["spec"]["nodeName"]
    env.cluster.call(env.cluster.kubelet.lose_node(worker))
    try:
        after = quorum.wait_healthy(
            3, timeout_s=MOVE_TIMEOUT_S, also=lambda now: (victim.id, victim.uuid) not in now.keys
        )
        assert before.keys - after.keys == {(victim.id, victim.uuid)}
        quorum.wait_ready(3)
    finally:
        env.cluster.call(env.cluster.kubelet.add_node(worker))


@pytest.mark.long
def test_terminating_claim_under_a_healthy_pod_causes_a_planned_replacement(env: Env) -> None:
    quorum = env.create(3)
    quorum.wait_ready(3)
    victim = quorum.voter(leader=False)
    pod = quorum.pod_of(victim.id, victim.uuid)
    offset = quorum.last_voters_offset()
    env.api.delete(kube.core(env.namespace, "persistentvolumeclaims", f"data-{pod}"))
    gone = (victim.id, victim.uuid)
    quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S, also=lambda now: gone not in now.keys)
    quorum.wait_ready(3)
    assert len(quorum.steps_since(offset)) == 2


@pytest.mark.long
@pytest.mark.requirement("OP-04")
def test_full_disk_sets_a_condition_and_causes_no_replacement(env: Env) -> None:
    quorum = env.create(3, disks=True, repair=_EAGER)
    before = quorum.wait_ready(3)
    victim = quorum.voter(leader=False)
    pod = quorum.pod_of(victim.id, victim.uuid)
    volume = quorum.volume_of(pod)
    holds = unmoved(quorum, before)
    env.cluster.kubelet.volumes.fill(volume)
    quorum.wait_condition("DiskFull", timeout_s=MOVE_TIMEOUT_S)
    stays("no replacement for a full disk", holds, for_s=_QUIET_S)
    env.cluster.kubelet.volumes.empty(volume)
    assert quorum.wait_ready(3).keys == before.keys


@pytest.mark.long
def test_mount_failure_counts_as_disk_failure_after_the_debounce_time(env: Env) -> None:
    quorum = env.create(3, repair=_EAGER)
    before = quorum.wait_ready(3)
    victim = quorum.voter(leader=False)
    pod = quorum.pod_of(victim.id, victim.uuid)
    env.cluster.kubelet.volumes.detach(quorum.volume_of(pod))
    env.api.delete(kube.core(env.namespace, "pods", pod))
    gone = (victim.id, victim.uuid)
    after = quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S, also=lambda now: gone not in now.keys)
    assert before.keys - after.keys == {gone}
    quorum.wait_ready(3)


@pytest.mark.long
def test_automatic_repair_can_be_disabled(env: Env) -> None:
    quorum = env.create(3, disks=True, repair={"enabled": False})
    before = quorum.wait_ready(3)
    incarnations = quorum.incarnations()
    quorum.fail_disk(quorum.voter(leader=False))
    wait_for("it is noticed", lambda: quorum.phase() != "Ready", timeout_s=30)

    def kept() -> bool:
        now = quorum.describe()
        made = quorum.incarnations().keys() - incarnations.keys()
        return (now is None or now.keys == before.keys) and not made

    stays("no replacement", kept, for_s=_QUIET_S)


@pytest.mark.long
def test_replacements_per_hour_are_limited(env: Env) -> None:
    quorum = env.create(3, disks=True, repair={"maxReplacementsPerHour": 1})
    quorum.wait_ready(3)
    quorum.wait_replaced(quorum.fail_disk(quorum.voter(leader=False)), 3)
    incarnations = quorum.incarnations()
    quorum.fail_disk(quorum.voter(leader=False))
    wait_for("it is latched", lambda: len(quorum.latched()) == 2, timeout_s=30)

    def capped() -> bool:
        return quorum.incarnations().keys() == incarnations.keys()

    stays("no second replacement", capped, for_s=_QUIET_S)
    assert quorum.status()["plan"]["blockedBy"] == "spec.repair.maxReplacementsPerHour"
