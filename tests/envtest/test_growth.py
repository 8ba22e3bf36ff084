"""A spec becomes voters, one step at a time: create, scale, reverse, retire, pause."""

import pytest

from support.envtest.environment import Env
from support.envtest.kube_api import Json
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.envtest.volumes import DIRECTORY_CLASS, OTHER_DIRECTORY_CLASS
from support.kind_env import kube
from support.kind_env.quorum import Described
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.usefixtures("operator")]

_QUIET_S = 4.0


def ids(described: Described) -> set[int]:
    return {voter.id for voter in described.voters}


def test_quorum_with_one_replica_serves_writes(env: Env) -> None:
    quorum = env.create(1)
    assert quorum.incarnations() == {"q-1-1": 1}
    status = whole_status(quorum)
    assert (status["replicas"], status["readyReplicas"], status["leader"]["id"]) == (1, 1, 1)


@pytest.mark.requirement("OP-01")
def test_three_replicas_form_one_after_the_other_with_all_their_objects(env: Env) -> None:
    quorum = env.create(3)
    now = described(quorum)
    assert ids(now) == {1, 2, 3}
    assert quorum.steps_since() == ["+2", "+3"] or quorum.steps_since() == ["+3", "+2"]
    status = whole_status(quorum)
    assert status["failureTolerance"] == {"now": 1, "afterNextStep": 1}
    assert {(m["id"], m["uuid"]) for m in status["members"]} == now.keys
    assert all(m["ready"] and m["voter"] and m["pvc"] and m["node"] for m in status["members"])
    assert len({m["node"] for m in status["members"]}) == 3, "spread over the workers"
    assert status["clusterId"] == now.document["clusterId"]
    identity = env.api.get(kube.core(env.namespace, "configmaps", "q-identity"))
    assert identity["immutable"] is True
    for plural, name in (("services", "q-nodes"), ("services", "q-admin"), ("secrets", "q-admin")):
        assert env.api.find(kube.core(env.namespace, plural, name)), name
    assert env.api.find(kube.policy(env.namespace, "poddisruptionbudgets", "q"))


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_scaling_from_three_to_five_and_back_changes_one_member_at_a_time(env: Env) -> None:
    quorum = env.create(3)
    offset = quorum.last_voters_offset()
    quorum.scale(5)
    grown = quorum.wait_ready(5)
    up = quorum.steps_since(offset)
    assert sorted(up) == [f"+{each}" for each in sorted(ids(grown) - {1, 2, 3})]
    quorum.scale(3)
    quorum.wait_ready(3)
    steps = quorum.steps_since(offset)
    assert steps[:2] == up
    assert [step[0] for step in steps[2:]] == ["-", "-"]
    assert len(quorum.claims()) == 5, "claims of removed members are kept"


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_scale_up_reverted_half_way_returns_to_the_initial_members(env: Env) -> None:
    quorum = env.create(3)
    before = quorum.wait_ready(3)
    offset = quorum.last_voters_offset()
    quorum.scale(5)
    wait_for(
        "a fourth member",
        lambda: len(quorum.incarnations()) > 3,
        timeout_s=MOVE_TIMEOUT_S,
        poll_s=0.05,
    )
    quorum.scale(3)
    after = quorum.wait_ready(3)
    assert after.keys == before.keys
    steps = quorum.steps_since(offset)
    assert len([s for s in steps if s[0] == "+"]) == len([s for s in steps if s[0] == "-"])


@pytest.mark.long
@pytest.mark.requirement("OP-06")
def test_retiring_a_member_replaces_it_under_a_new_id(env: Env) -> None:
    quorum = env.create(3)
    before = quorum.wait_ready(3)
    offset = quorum.last_voters_offset()
    quorum.patch({"retire": [2]})
    wait_for(
        "2 is no voter",
        lambda: (now := quorum.describe()) is not None and 2 not in ids(now),
        timeout_s=MOVE_TIMEOUT_S,
        seen=quorum.summary,
    )
    after = quorum.wait_ready(3)
    (fresh,) = ids(after) - ids(before)
    assert fresh > 3
    assert sorted(quorum.steps_since(offset)) == sorted([f"+{fresh}", "-2"])
    assert "data-q-2-1-0" in quorum.claims_by_uid().values()


@pytest.mark.long
@pytest.mark.requirement("OP-06")
def test_changed_storage_size_replaces_the_members_one_by_one(env: Env) -> None:
    quorum = env.create(3)
    before = quorum.wait_ready(3)
    offset = quorum.last_voters_offset()
    quorum.patch({"storage": {"size": "300Mi"}})
    after = quorum.wait_healthy(
        3, timeout_s=2 * MOVE_TIMEOUT_S, also=lambda now: not now.keys & before.keys
    )
    assert ids(after) == ids(before)
    quorum.wait_ready(3)
    assert len(quorum.steps_since(offset)) == 6
    sizes = {c["metadata"]["name"]: c["spec"]["resources"] for c in quorum.claims()}
    assert {name: each["requests"]["storage"] for name, each in sizes.items()} == {
        **{f"data-q-{each}-1-0": "200Mi" for each in ids(before)},
        **{f"data-q-{each}-2-0": "300Mi" for each in ids(before)},
    }


@pytest.mark.long
@pytest.mark.requirement("OP-06")
def test_changed_storage_class_replaces_the_members_one_by_one(env: Env) -> None:
    """The same size on other volumes: every member gets a successor under its id, and keeps its old claim."""
    quorum = env.create(3)
    before = quorum.wait_ready(3)
    offset = quorum.last_voters_offset()
    quorum.patch({"storage": {"storageClassName": OTHER_DIRECTORY_CLASS}})
    after = quorum.wait_healthy(
        3, timeout_s=2 * MOVE_TIMEOUT_S, also=lambda now: not now.keys & before.keys
    )
    assert ids(after) == ids(before)
    quorum.wait_ready(3)
    assert len(quorum.steps_since(offset)) == 6, "one voter at a time"
    claims = {claim["metadata"]["name"]: claim["spec"] for claim in quorum.claims()}
    assert {name: spec["storageClassName"] for name, spec in claims.items()} == {
        **{f"data-q-{each}-1-0": DIRECTORY_CLASS for each in ids(before)},
        **{f"data-q-{each}-2-0": OTHER_DIRECTORY_CLASS for each in ids(before)},
    }
    assert {spec["resources"]["requests"]["storage"] for spec in claims.values()} == {"200Mi"}
    used = {member["pvc"] for member in quorum.status()["members"]}
    assert used == {f"data-q-{each}-2-0" for each in ids(before)}
    stays("no member is replaced again", lambda: len(quorum.incarnations()) == 3, for_s=_QUIET_S)
    assert set(quorum.wait_ready(3).keys) == set(after.keys)


@pytest.mark.long
def test_retiring_the_leader_transfers_leadership_first(env: Env) -> None:
    quorum = env.create(3)
    before = quorum.wait_ready(3)
    quorum.patch({"retire": [before.leader_id]})
    after = quorum.wait_healthy(
        3, timeout_s=MOVE_TIMEOUT_S, also=lambda now: before.leader_id not in ids(now)
    )
    assert after.leader_id != before.leader_id
    assert len(quorum.steps_since(0)) == 4


@pytest.mark.long
@pytest.mark.requirement("OP-01")
def test_paused_quorum_changes_no_member_and_continues_when_resumed(env: Env) -> None:
    quorum = env.create(3)
    quorum.patch({"paused": True, "replicas": 5})
    quorum.wait_phase("Paused", timeout_s=MOVE_TIMEOUT_S)
    stays("no fourth member", lambda: len(quorum.incarnations()) == 3, for_s=_QUIET_S)
    quorum.patch({"paused": False})
    quorum.wait_ready(5)


def test_unknown_storage_class_is_named_in_a_condition(env: Env, operator: OperatorProcess) -> None:
    storage = {"size": "200Mi", "storageClassName": "no-such-class"}
    quorum = env.apply(3, storage=storage)
    condition = quorum.wait_condition("SpecInvalid", timeout_s=30)
    assert "no-such-class" in condition["message"]
    assert operator.alive()


@pytest.mark.long
@pytest.mark.parametrize(("policy", "kept"), [("Retain", 3), ("Delete", 0)])
def test_deleting_the_resource_follows_its_deletion_policy(
    env: Env, policy: str, kept: int
) -> None:
    quorum = env.create(3, deletionPolicy=policy)
    env.api.delete(quorum.path)
    quorum.wait_gone(timeout_s=MOVE_TIMEOUT_S)
    wait_for(f"{kept} claims", lambda: len(quorum.claims()) == kept, timeout_s=20)
    stays(f"{kept} claims", lambda: len(quorum.claims()) == kept, for_s=1)
    left = env.api.list(kube.apps(env.namespace, "statefulsets"))
    assert left == []


@pytest.mark.long
def test_two_quorums_in_one_namespace_do_not_affect_each_other(env: Env) -> None:
    first = env.create(1, name="a")
    second = env.create(1, name="a-1")
    assert described(first).document["clusterId"] != described(second).document["clusterId"]
    first.scale(3)
    first.wait_ready(3)
    assert second.incarnations() == {"a-1-1-1": 1}


def whole_status(quorum: ApiServerQuorum) -> Json:
    """A status that calls every voter ready: the readiness of a pod comes and goes on a busy machine."""

    def whole() -> Json | None:
        status = quorum.status()
        healthy = status["phase"] == "Ready" and status["readyReplicas"] == status["replicas"]
        return status if healthy and status.get("leader") else None

    return wait_for("all are ready", whole, timeout_s=MOVE_TIMEOUT_S, seen=quorum.summary)


def described(quorum: ApiServerQuorum) -> Described:
    return wait_for("a description", quorum.describe, timeout_s=20)
