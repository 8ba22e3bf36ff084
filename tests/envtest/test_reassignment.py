"""A PartitionReassignment becomes moves, a few at a time, also when the operator fails; and what is rejected."""

from collections.abc import Iterator

import pytest

from support.envtest.cluster import ApiServerCluster
from support.envtest.dataless_brokers import DatalessBrokers
from support.envtest.environment import Env
from support.envtest.http_proxy import RecordingProxy
from support.envtest.kube_api import ApiError, Json
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.kind_env.waiting import stays, wait_for

pytestmark = pytest.mark.envtest

_KAFKA_PORT = 9093
_TIMEOUT_S = 30.0
_PARTITIONS = 6


def document(name: str, *targets: Json, **spec: object) -> Json:
    return {
        "apiVersion": kube.API_VERSION,
        "kind": "PartitionReassignment",
        "metadata": {"name": name},
        "spec": {"quorum": "q", "partitions": list(targets), **spec},
    }


def to(partition: int, *replicas: int, topic: str = "t") -> Json:
    return {"topic": topic, "partition": partition, "replicas": list(replicas)}


class Moves:
    """A quorum of one with four brokers, and a topic t whose partitions are on brokers 11 and 12."""

    def __init__(self, env: Env, proxy: RecordingProxy) -> None:
        self.env = env
        self._proxy = proxy
        self.quorum: ApiServerQuorum = env.create(1)
        (pod,) = self.quorum.pods()
        described = wait_for("a description", self.quorum.describe, timeout_s=_TIMEOUT_S)
        address = (pod["status"]["podIP"], _KAFKA_PORT)
        self.brokers = DatalessBrokers(address, described.document["clusterId"], range(11, 15))
        self.brokers.create("t", *[(11, 12)] * _PARTITIONS)

    def apply(self, name: str, *targets: Json, **spec: object) -> None:
        self.env.api.create(
            kube.reassignments(self.env.namespace), document(name, *targets, **spec)
        )

    def change(self, name: str, **spec: object) -> None:
        self.env.api.merge(kube.reassignments(self.env.namespace, name), {"spec": spec})

    def status(self, name: str) -> Json:
        found = self.env.api.get(kube.reassignments(self.env.namespace, name))
        status: Json = found.get("status") or {}
        return status

    def wait(self, name: str, **wanted: object) -> Json:
        """Waits until the status reports it."""

        def probe() -> bool:
            return self.status(name).items() >= wanted.items()

        wait_for(f"{name}: {wanted}", probe, timeout_s=_TIMEOUT_S, seen=lambda: self.status(name))
        return self.status(name)

    def moving(self) -> dict[int, list[int]]:
        """Partition → its replicas during the move, as described by the quorum."""
        pod = self.quorum.pods()[0]["metadata"]["name"]
        found = self.quorum.fetch_from(pod, "/v1/reassignments")["partitions"]
        return {each["partition"]: each["replicas"] for each in found}

    def all_arrive(self) -> None:
        """Everything that moves now."""
        for partition in self.moving():
            self.brokers.arrive("t", partition, 11, [11, 12, 13, 14])

    def submissions(self) -> int:
        """How often the operator requested a change."""
        return sum(
            call.method == "POST" and call.path.endswith("/v1/reassignments")
            for call in self._proxy.calls
        )


@pytest.fixture
def moves(env: Env) -> Iterator[Moves]:
    operator, proxy = env.add_operator()
    operator.start()
    made = Moves(env, proxy)
    with made.brokers:
        yield made


@pytest.mark.long
@pytest.mark.requirement("OP-08")
def test_partitions_move_within_limits_although_the_operator_is_killed(moves: Moves) -> None:
    (operator,) = moves.env.operators
    targets = [to(each, 13, 14) for each in range(_PARTITIONS)]
    moves.apply("drain", *targets, maxMovingPartitions=2)
    status = moves.wait("drain", phase="Running", moving=2, done=0)
    assert (status["total"], status["waiting"], status["failed"]) == (_PARTITIONS, 4, 0)
    assert moves.moving() == {0: [13, 14, 11, 12], 1: [13, 14, 11, 12]}
    operator.kill()
    moves.brokers.arrive("t", 0, 11, [11, 12, 13, 14])
    operator.start()
    moves.wait("drain", moving=2, done=1)
    assert sorted(moves.moving()) == [1, 2]
    for done in (3, 5, 6):
        moves.all_arrive()
        moves.wait("drain", done=done)
    status = moves.wait("drain", phase="Completed", moving=0)
    assert status["startedAt"] <= status["finishedAt"]
    assert moves.moving() == {}
    sent = moves.submissions()
    moves.change("drain", paused=True)
    stays("nothing more", lambda: moves.submissions() == sent, for_s=2)
    reasons = [event["reason"] for event in moves.env.api.list(_events(moves))]
    assert {"Running", "Completed"} <= set(reasons)


@pytest.mark.long
@pytest.mark.requirement("OP-08")
def test_two_operators_share_the_limit_of_concurrent_moves(moves: Moves) -> None:
    second, _ = moves.env.add_operator()
    second.start()
    targets = [to(each, 13, 14) for each in range(_PARTITIONS)]
    moves.apply("drain", *targets, maxMovingPartitions=2)
    for _ in range(_PARTITIONS):
        wait_for("something to move", moves.moving, timeout_s=_TIMEOUT_S)
        stays("two at most", lambda: len(moves.moving()) <= 2, for_s=2.5, poll_s=0.02)
        moves.brokers.arrive("t", min(moves.moving()), 11, [11, 12, 13, 14])
    moves.wait("drain", phase="Completed", done=_PARTITIONS)


@pytest.mark.long
@pytest.mark.requirement("OP-08")
def test_invalid_moves_are_reported_and_not_retried(moves: Moves) -> None:
    targets = [to(0, 13, 14), to(1, 13, 9), to(77, 13, 14), to(0, 1, topic="none")]
    moves.apply("wrong", *targets)
    moves.wait("wrong", phase="Running", moving=1, failed=3)
    moves.all_arrive()
    status = moves.wait("wrong", phase="Failed", done=1)
    assert [(each["topic"], each["partition"], each["reason"]) for each in status["problems"]] == [
        ("t", 1, "UnknownBroker"),
        ("t", 77, "UnknownPartition"),
        ("none", 0, "UnknownPartition"),
    ]
    refused = next(c for c in status["conditions"] if c["type"] == "PartitionsRefused")
    assert "broker 9 is not registered" in refused["message"]
    assert moves.submissions() == 1


@pytest.mark.long
@pytest.mark.requirement("OP-08")
def test_cancelled_moves_are_reverted_and_the_next_reassignment_starts(moves: Moves) -> None:
    moves.apply("first", to(0, 13, 14), to(1, 13, 14), maxMovingPartitions=1)
    moves.wait("first", phase="Running", moving=1)
    moves.apply("second", to(0, 14, 13))
    status = moves.wait("second", phase="Pending")
    progressing = next(c for c in status["conditions"] if c["type"] == "Progressing")
    assert progressing["reason"] == "WaitingForTurn"
    assert "first" in progressing["message"]
    moves.change("first", cancel=True)
    assert moves.wait("first", phase="Cancelled")["done"] == 0
    moves.wait("second", phase="Running", moving=1)
    assert moves.moving() == {0: [14, 13, 11, 12]}
    with pytest.raises(ApiError, match="can't be undone"):
        moves.change("first", cancel=False)
    moves.env.api.delete(kube.reassignments(moves.env.namespace, "second"))
    stays("its move goes on", lambda: list(moves.moving()) == [0], for_s=2)


@pytest.mark.long
def test_paused_reassignment_starts_no_move_and_lets_other_reassignments_run(moves: Moves) -> None:
    moves.apply("first", to(0, 13, 14), to(1, 13, 14), maxMovingPartitions=1)
    moves.wait("first", phase="Running", moving=1)
    moves.change("first", paused=True)
    moves.wait("first", phase="Paused")
    moves.all_arrive()
    moves.wait("first", done=1, moving=0)
    moves.apply("second", to(2, 13, 14))
    moves.wait("second", phase="Running", moving=1)
    moves.all_arrive()
    moves.wait("second", phase="Completed")
    moves.change("first", paused=False)
    moves.wait("first", phase="Running", moving=1)


@pytest.mark.usefixtures("operator")
def test_missing_quorum_of_a_reassignment_is_named(env: Env) -> None:
    path = kube.reassignments(env.namespace, "lost")
    env.api.create(kube.reassignments(env.namespace), document("lost", to(0, 1)))

    def reason() -> str | None:
        conditions = (env.api.get(path).get("status") or {}).get("conditions", [])
        return next((c["reason"] for c in conditions if c["type"] == "Progressing"), None)

    wait_for("a condition", lambda: reason() == "QuorumNotFound", timeout_s=_TIMEOUT_S, seen=reason)


_WRONG: dict[str, tuple[Json, str]] = {
    "no partition": ({"partitions": []}, "at least 1"),
    "too many": ({"partitions": [to(each, 1) for each in range(1001)]}, "at most 1000"),
    "no replica": ({"partitions": [to(0)]}, "at least 1"),
    "too many replicas": ({"partitions": [to(0, *range(17))]}, "at most 16"),
    "a broker twice": ({"partitions": [to(0, 1, 2, 1)]}, "twice"),
    "a negative broker": ({"partitions": [to(0, -1)]}, "greater than or equal to 0"),
    "a partition twice": ({"partitions": [to(0, 1), to(0, 2)]}, "Duplicate"),
    "a negative partition": ({"partitions": [to(-1, 1)]}, "greater than or equal to 0"),
    "no topic's name": ({"partitions": [to(0, 1, topic="a b")]}, "topic"),
    "none at once": ({"maxMovingPartitions": 0}, "greater than or equal to 1"),
    "no quorum": ({"quorum": ""}, "quorum"),
}


@pytest.fixture(scope="module")
def place(
    api: Kube, cluster: ApiServerCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Env]:
    """One namespace for all; no operator watches it."""
    made = Env(api, cluster, tmp_path_factory.mktemp("reassignments"), warm=True)
    try:
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("case", _WRONG)
def test_invalid_reassignment_spec_is_rejected(place: Env, case: str) -> None:
    spec, says = _WRONG[case]
    wrong = document("wrong", to(0, 1))
    wrong["spec"] |= spec
    with pytest.raises(ApiError) as refused:
        place.api.call("POST", kube.reassignments(place.namespace), wrong, query={"dryRun": "All"})
    assert refused.value.status == 422
    assert says in refused.value.body


def test_only_pause_and_limits_of_a_reassignment_can_be_changed(place: Env) -> None:
    path = kube.reassignments(place.namespace, "small")
    made = place.api.apply(path, document("small", to(0, 1, 2), to(1, 1, 2)))
    assert made["spec"]["maxMovingPartitions"] == 20
    for change, says in (
        ({"quorum": "other"}, "spec.quorum is immutable"),
        ({"partitions": [to(0, 1, 2)]}, "spec.partitions is immutable"),
        ({"partitions": [to(0, 2, 1), to(1, 1, 2)]}, "spec.partitions is immutable"),
    ):
        with pytest.raises(ApiError) as refused:
            place.api.merge(path, {"spec": change})
        assert refused.value.status == 422
        assert says in refused.value.body
    place.api.merge(path, {"spec": {"maxMovingPartitions": 5, "paused": True, "cancel": True}})


@pytest.mark.long
def test_largest_accepted_reassignment_can_be_stored(place: Env) -> None:
    replicas = range(2**31 - 16, 2**31)
    targets = [to(2**31 - 1 - each, *replicas, topic="t" * 249) for each in range(1000)]
    path = kube.reassignments(place.namespace, "largest")
    place.api.apply(path, document("largest", *targets))
    assert len(place.api.get(path)["spec"]["partitions"]) == 1000


def _events(moves: Moves) -> str:
    return kube.core(moves.env.namespace, "events")
