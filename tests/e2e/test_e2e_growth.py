"""Create, grow, shrink and lose leaders, with writer and checker running all the time."""

from collections.abc import Callable

import pytest

from support.kind_env import kube
from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.pod_watch import PodWatch
from support.kind_env.quorum import Described

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.requirement("OP-01", "OP-03", "OP-09")
def test_quorum_forms_serves_writes_fails_over_scales_up_and_scales_down(
    env: KindEnv,
) -> None:
    """One quorum under one load: most of a test on its own would be to make them."""
    quorum = env.create_under_load(3)
    is_whole(env)
    kill_leader(env, times=1)
    first = quorum.wait_healthy(3, timeout_s=30)
    quorum.scale(5)
    five = quorum.wait_healthy(5, timeout_s=MOVE_TIMEOUT_S)
    assert first.keys < five.keys, "existing members are unchanged"
    quorum.scale(3)
    quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S)
    quorum.wait_phase("Ready", timeout_s=60)
    verdict = env.prove_nothing_lost()
    # 1 → 2 → 3 at formation, nothing for the killed leader, then two in and two out.
    assert verdict.voter_changes == 6


def is_whole(env: KindEnv) -> None:
    quorum = env.the_quorum

    def whole() -> bool:
        """The readiness of a pod comes and goes on a busy machine."""
        status = quorum.status()
        ready = (status["replicas"], status["readyReplicas"])
        return (*ready, status["failureTolerance"]["now"]) == (3, 3, 1)

    env.wait_until("a status that calls all ready", whole, timeout_s=60)
    hosts = {pod["spec"]["nodeName"] for pod in quorum.pods()}
    assert len(hosts) == 3, "members are spread over hosts"
    for path in (
        kube.core(env.namespace, "services", f"{quorum.name}-nodes"),
        kube.core(env.namespace, "services", f"{quorum.name}-admin"),
        kube.core(env.namespace, "services", f"{quorum.name}-bootstrap"),
        kube.core(env.namespace, "configmaps", f"{quorum.name}-identity"),
        kube.core(env.namespace, "secrets", f"{quorum.name}-admin"),
        kube.policy(env.namespace, "poddisruptionbudgets", quorum.name),
    ):
        assert env.cluster.api.find(path) is not None, path


@pytest.mark.long
def test_five_killed_leaders_restart_and_no_member_is_replaced(env: KindEnv) -> None:
    env.create_under_load(3)
    kill_leader(env, times=5)
    assert env.prove_nothing_lost().voter_changes == 2


def kill_leader(env: KindEnv, *, times: int) -> None:
    quorum = env.the_quorum
    for _ in range(times):
        before = quorum.wait_healthy(3, timeout_s=60)
        env.faults.kill_9(quorum.pod_of(before.leader_id, before.leader_uuid))
        after = quorum.wait_healthy(3, timeout_s=60, also=later_than(before))
        assert after.keys == before.keys, "a crash moved a member"
        env.the_load.wait_for_acknowledgement(timeout_s=10)


def later_than(before: Described) -> Callable[[Described], bool]:
    """Whether a leader of a later epoch answers."""
    return lambda now: now.leader_epoch > before.leader_epoch


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_scale_up_reverted_half_way_returns_to_the_initial_members(env: KindEnv) -> None:
    quorum = env.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    quorum.scale(5)
    env.wait_until("a newcomer's StatefulSet", lambda: len(env.incarnations()) > 3, timeout_s=60)
    quorum.scale(3)
    quorum.wait_phase("Ready", timeout_s=MOVE_TIMEOUT_S)
    after = quorum.wait_healthy(3, timeout_s=60)
    assert after.keys == before.keys, "complete members are unchanged"
    env.prove_nothing_lost()


@pytest.mark.long
@pytest.mark.requirement("OP-06")
def test_any_member_can_be_retired_and_its_replacement_has_a_new_id(env: KindEnv) -> None:
    quorum = env.create_under_load(3)
    leader = env.voter(leader=True)
    quorum.patch({"retire": [leader.id]})
    after = quorum.wait_healthy(
        3,
        timeout_s=MOVE_TIMEOUT_S,
        also=lambda now: leader.id not in {voter.id for voter in now.voters},
    )
    assert max(voter.id for voter in after.voters) > 3
    env.prove_nothing_lost()


@pytest.mark.long
@pytest.mark.requirement("OP-05")
def test_changed_property_restarts_one_pod_at_a_time_and_the_leader_last(env: KindEnv) -> None:
    quorum = env.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    leader = quorum.pod_of(before.leader_id, before.leader_uuid)
    with PodWatch(quorum) as watch:
        quorum.patch({"config": {"controller.quorum.fetch.timeout.ms": "2500"}})
        env.wait_until(
            "every pod is recreated", lambda: watch.all_recreated, timeout_s=MOVE_TIMEOUT_S
        )
        after = quorum.wait_healthy(3, timeout_s=60)
    assert watch.replaced[-1] == leader
    assert watch.most_down == 1
    assert after.keys == before.keys, "a restart moved a member"
    assert env.prove_nothing_lost().voter_changes == 2, "the UUIDs have changed since the formation"
