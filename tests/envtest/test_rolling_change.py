"""A new image, other resources, another property: one pod restarts at a time, the leader last, and only from a healthy quorum."""

import signal

import pytest

from support.envtest.environment import OTHER_NODE_IMAGE, Env
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env.pod_watch import PodWatch, is_ready
from support.kind_env.quorum import Described
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.usefixtures("operator")]

_PROPERTY = "controller.quorum.fetch.timeout.ms"
_QUIET_S = 3.0


def templates(quorum: ApiServerQuorum) -> set[str]:
    """What the running pods were made from: one value once all are alike."""
    return {
        pod["metadata"]["annotations"]["metadataquorum.dev/restart-hash"] for pod in quorum.pods()
    }


def uids(quorum: ApiServerQuorum) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in quorum.pods()}


def wait_rolled(quorum: ApiServerQuorum, before: set[str], members: int) -> Described:
    """Until all pods are made from another template, and no further change follows."""

    def rolled() -> bool:
        now = templates(quorum)
        ready = [pod for pod in quorum.pods() if is_ready(pod)]
        return len(ready) == members and len(now) == 1 and not now & before

    wait_for("all pods anew", rolled, timeout_s=MOVE_TIMEOUT_S, seen=quorum.summary)
    return quorum.wait_ready(members)


@pytest.mark.long
@pytest.mark.requirement("OP-05")
@pytest.mark.parametrize(
    "change",
    [
        {"config": {_PROPERTY: "2500"}},
        {"image": OTHER_NODE_IMAGE},
        {"resources": {"requests": {"cpu": "20m"}}},
        {"podTemplate": {"env": [{"name": "TZ", "value": "UTC"}], "labels": {"team": "a"}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_rollout_restarts_one_pod_at_a_time_and_the_leader_last(
    env: Env, change: dict[str, object]
) -> None:
    quorum = env.create(3)
    load = env.start_load(quorum)
    load.wait_for_amount(20, timeout_s=30)
    before, old = quorum.wait_ready(3), templates(quorum)
    leader = quorum.pod_of(before.leader_id, before.leader_uuid)
    with PodWatch(quorum) as watch:
        quorum.patch(change)
        after = wait_rolled(quorum, old, 3)
    assert watch.looks > 20
    assert sorted(watch.replaced) == sorted(uids(quorum))
    assert watch.replaced[-1] == leader
    assert watch.most_down == 1
    assert after.keys == before.keys, "a restart moved a member"
    assert env.prove_nothing_lost(load).voter_changes == 2, (
        "the UUIDs have changed since the formation"
    )


@pytest.mark.long
@pytest.mark.requirement("OP-05")
def test_rollout_restarts_a_hung_voter_first_and_then_the_others(env: Env) -> None:
    quorum = env.create(3)
    before, old = uids(quorum), templates(quorum)
    voter = max(quorum.wait_ready(3).voters, key=lambda each: (each.id != 1, each.id))
    pod = quorum.pod_of(voter.id, voter.uuid)
    with PodWatch(quorum) as watch:
        quorum.send(pod, signal.SIGSTOP)
        wait_for("a pod that is down", lambda: watch.most_down == 1, timeout_s=30)
        quorum.patch({"config": {_PROPERTY: "2500"}})
        wait_rolled(quorum, old, 3)
    assert watch.most_down == 1
    assert not set(uids(quorum).values()) & set(before.values())


@pytest.mark.long
@pytest.mark.requirement("OP-05")
def test_property_rejected_by_nodes_stops_the_rollout_at_one_pod_and_a_fix_is_rolled_out(
    env: Env, operator: OperatorProcess
) -> None:
    quorum = env.create(3)
    load = env.start_load(quorum)
    before, old = quorum.wait_ready(3), templates(quorum)
    with PodWatch(quorum) as watch:
        quorum.patch({"config": {_PROPERTY: "soon"}})
        wait_for("the first pod has gone", lambda: watch.replaced, timeout_s=30)
        stays("one pod is down", lambda: len(watch.replaced) == 1, for_s=_QUIET_S)
        load.wait_for_acknowledgement(timeout_s=20)
        quorum.patch({"config": {_PROPERTY: "2500"}})
        after = wait_rolled(quorum, old, 3)
    assert watch.most_down == 1
    assert after.keys == before.keys
    assert operator.alive()
    env.prove_nothing_lost(load)


@pytest.mark.long
@pytest.mark.requirement("OP-05")
def test_operator_killed_during_a_rollout_restarts_no_pod_twice(
    env: Env, operator: OperatorProcess
) -> None:
    quorum = env.create(3)
    before, old = uids(quorum), templates(quorum)
    with PodWatch(quorum) as watch:
        quorum.patch({"config": {_PROPERTY: "2500"}})
        wait_for("the first pod has gone", lambda: watch.replaced, timeout_s=30)
        operator.kill()
        first = watch.replaced[0]
        wait_for(
            "its successor",
            lambda: uids(quorum).get(first, before[first]) != before[first],
            timeout_s=30,
        )
        successor = uids(quorum)[first]
        operator.start()
        wait_rolled(quorum, old, 3)
    assert uids(quorum)[first] == successor
    assert watch.most_down == 1
