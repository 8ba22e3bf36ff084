"""Two of three disks are lost for good: the quorum continues from the survivor that was confirmed, and from no other."""

import httpx
import pytest

from support.envtest.environment import Env
from support.envtest.kube_api import Json
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.quorum import Voter
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.long, pytest.mark.requirement("OP-07")]

_QUIET_S = 4.0
_STORAGE_FAILED = 74
_FENCED = {"q-1-1", "q-2-1", "q-3-1"}


class Values:
    """Acknowledged writes, and what each member has of them in its own state."""

    def __init__(self, quorum: ApiServerQuorum) -> None:
        self._quorum = quorum
        self._token = quorum.token()

    def _url(self, pod: str, name: str) -> str:
        return f"http://{self._quorum.address_of(pod)}:8080/v1/configs/topic/t/{name}"

    def put(self, pod: str, name: str) -> None:
        """Returns when it is acknowledged."""
        headers = {"Authorization": f"Bearer {self._token}"}
        body = {"value": name, "timeoutMs": 5000}
        url = self._url(pod, name)

        def acknowledged() -> bool:
            return httpx.put(url, json=body, headers=headers, trust_env=False).is_success

        wait_for(f"{name} is acknowledged", acknowledged, timeout_s=20)

    def held_by(self, pod: str, names: list[str]) -> list[str]:
        """Those of `names` that are in this member's state."""
        found = []
        for name in names:
            answer = httpx.get(self._url(pod, name) + "?consistency=local", trust_env=False)
            if answer.status_code == 200:
                found.append(name)
        return found


def lose_two_disks(
    env: Env, quorum: ApiServerQuorum, operator: OperatorProcess, values: Values
) -> tuple[Voter, list[str]]:
    """The survivor misses the last writes; returns it and them."""
    before = quorum.wait_ready(3)
    survivor, *victims = sorted(before.voters, key=lambda each: each.id == before.leader_id)
    pod, leader = quorum.pod_of(survivor.id), quorum.pod_of(before.leader_id)
    # Seen at once: else the operator may replace the one before the other one has failed.
    operator.kill()
    path = kube.core(env.namespace, "pods", pod)
    env.cluster.run(lambda: env.cluster.kubelet.hold(env.namespace, pod))
    uid = env.api.get(path)["metadata"]["uid"]
    env.api.delete(path)
    wait_for(
        "its next pod waits",
        lambda: any(each["metadata"]["uid"] != uid for each in named(quorum, pod)),
        timeout_s=30,
    )
    late = [f"late{number}" for number in range(3)]
    for name in late:
        values.put(leader, name)
    failed = [quorum.fail_disk(each) for each in victims]
    wait_for(
        "both processes have ended",
        lambda: all(quorum.exit_code(each.pod) == _STORAGE_FAILED for each in failed),
        timeout_s=30,
    )
    env.cluster.run(lambda: env.cluster.kubelet.hold(env.namespace, pod, held=False))
    wait_for("it answers", lambda: quorum.node_description(pod), timeout_s=30)
    operator.start()
    return survivor, late


def named(quorum: ApiServerQuorum, pod: str) -> list[Json]:
    return [each for each in quorum.pods() if each["metadata"]["name"] == pod]


def offer_of(quorum: ApiServerQuorum) -> dict[str, object] | None:
    loss = quorum.status().get("quorumLoss") or {}
    found: dict[str, object] | None = loss.get("offer")
    return found


def test_confirmed_recovery_grows_a_survivor_back_to_three_voters_with_all_its_records(
    env: Env, operator: OperatorProcess
) -> None:
    quorum = env.create(3, disks=True)
    values = Values(quorum)
    early = [f"early{number}" for number in range(5)]
    for name in early:
        values.put(quorum.pod_of(quorum.voter(leader=True).id), name)
    old = quorum.wait_ready(3)
    survivor, late = lose_two_disks(env, quorum, operator, values)
    claims, incarnations = quorum.claims_by_uid(), quorum.incarnations()
    offer = wait_for("an offer", lambda: offer_of(quorum), timeout_s=60, seen=quorum.summary)
    pod = quorum.pod_of(survivor.id)
    local = quorum.fetch_from(pod, "/v1/node")
    reported = (local["replicaUuid"], local["logEndEpoch"], local["logEndOffset"])
    assert (offer["uuid"], offer["epoch"], offer["endOffset"]) == reported
    assert offer["id"] == survivor.id

    quorum.patch({"recovery": {**offer, "endOffset": int(str(offer["endOffset"])) + 1}})
    stays(
        "nothing is done for another confirmation",
        lambda: quorum.incarnations() == incarnations and quorum.pod_of(survivor.id) == pod,
        for_s=_QUIET_S,
    )
    quorum.patch({"recovery": offer})
    after = quorum.wait_healthy(3, timeout_s=2 * MOVE_TIMEOUT_S)
    quorum.wait_ready(3)
    assert not after.keys & old.keys, "no replica key of the lost quorum is a voter"
    assert {each.id for each in after.voters} == {1, 2, 3}
    assert claims.items() <= quorum.claims_by_uid().items(), "every volume is kept"
    out = _FENCED - {f"q-{survivor.id}-1"}
    assert quorum.latched() == out
    assert {name for name, replicas in quorum.incarnations().items() if not replicas} == out
    for voter in after.voters:
        name = quorum.pod_of(voter.id, voter.uuid)
        wait_for("all is replicated", lambda: values.held_by(name, early) == early, timeout_s=20)  # noqa: B023
        assert values.held_by(name, late) == [], "records beyond the reported end were not lost"
    wait_for(
        "the events",  # posted beside the status, in no order
        lambda: (
            {"QuorumLost", "BeginRecovery", "QuorumRegained"}
            <= {each["reason"] for each in env.events("q")}
        ),
        timeout_s=30,
    )

    # The confirmation is still in the spec, and no longer matches a replica.
    keys = after.keys
    stays("nothing happens twice", lambda: quorum.wait_ready(3).keys == keys, for_s=_QUIET_S)
