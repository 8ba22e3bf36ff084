"""StatefulSets, the identity and the resource itself are deleted on a real API server; the quorum is rebuilt from the claims."""

import pytest

from quorum_operator.kube.errors import Conflict, classify
from support.envtest.environment import Env, SharedQuorum
from support.envtest.kube_api import ApiError, Json
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.requirement("OP-07")]

_PREFIX = "metadataquorum.dev"
_MERGE = 30.0


def notes(env: Env, claim: str) -> dict[str, str]:
    meta = env.api.get(kube.core(env.namespace, "persistentvolumeclaims", claim))["metadata"]
    found: dict[str, str] = meta.get("annotations") or {}
    return {
        key.removeprefix(f"{_PREFIX}/"): text
        for key, text in found.items()
        if key.startswith(_PREFIX)
    }


def wait_marked(env: Env, quorum: ApiServerQuorum, keys: frozenset[tuple[int, str]]) -> None:
    """Until every voter's claim names its replica."""
    uid = quorum.resource()["metadata"]["uid"]

    def marked() -> bool:
        found = [notes(env, claim["metadata"]["name"]) for claim in quorum.claims()]
        mine = {each.get("replica-uuid") for each in found if each.get("resource-uid") == uid}
        return {uuid for _, uuid in keys} <= mine

    wait_for("the claims are marked", marked, timeout_s=_MERGE)


def test_deleted_stateful_sets_and_identity_are_recreated_with_the_same_replicas(
    shared_quorum: SharedQuorum,
) -> None:
    env, operator, quorum = shared_quorum.env, shared_quorum.operator, shared_quorum.quorum
    keys = frozenset(quorum.wait_ready(3).keys)
    wait_marked(env, quorum, keys)
    cluster_id, claims = quorum.status()["clusterId"], quorum.claims_by_uid()
    operator.kill()
    env.api.delete(kube.core(env.namespace, "configmaps", "q-identity"))
    for name in sorted(quorum.incarnations())[:2]:
        env.api.delete(kube.apps(env.namespace, "statefulsets", name))
    operator.start()
    wait_for("all sets are there", lambda: len(quorum.incarnations()) == 3, timeout_s=60)
    assert quorum.wait_ready(3).keys == keys
    assert quorum.claims_by_uid() == claims
    assert quorum.status()["clusterId"] == cluster_id
    identity: Json = env.api.get(kube.core(env.namespace, "configmaps", "q-identity"))
    assert (identity["data"]["clusterId"], identity["data"]["formed"]) == (cluster_id, "true")


def test_failure_mark_is_written_only_to_the_claim_with_the_evaluated_uid(
    shared_quorum: SharedQuorum,
) -> None:
    """What the operator's writes rest on: a UID, or a version, that is not the claim's is refused."""
    env, quorum = shared_quorum.env, shared_quorum.quorum
    name = quorum.claims()[0]["metadata"]["name"]
    path = kube.core(env.namespace, "persistentvolumeclaims", name)
    note = {f"{_PREFIX}/removed": "test"}
    for meta in ({"uid": "0" * 8}, {"resourceVersion": "1"}):
        with pytest.raises(ApiError) as refused:
            env.api.merge(path, {"metadata": {**meta, "annotations": note}})
        assert refused.value.status in {409, 422}
        assert isinstance(classify(refused.value.status, "", str(refused.value)), Conflict)
    assert "removed" not in notes(env, name)


def test_reapplied_resource_runs_its_old_claims_after_confirmation(
    shared_quorum: SharedQuorum,
) -> None:
    """The last of this file: the resource is another one after it."""
    env, quorum = shared_quorum.env, shared_quorum.quorum
    keys = frozenset(quorum.wait_ready(3).keys)
    wait_marked(env, quorum, keys)
    cluster_id, claims = quorum.status()["clusterId"], quorum.claims_by_uid()
    env.api.delete(quorum.path)
    quorum.wait_gone(timeout_s=60)
    wait_for("its sets are gone", lambda: not quorum.incarnations(), timeout_s=60)
    wait_for("its identity is gone", lambda: not quorum.identities(), timeout_s=60)
    env.quorums.remove(quorum)
    again = env.apply(3)

    def asked() -> bool:
        found = again.status().get("conditions") or []
        return any(c["type"] == "ClaimsInDoubt" and cluster_id in c["message"] for c in found)

    wait_for("a person is asked", asked, timeout_s=60, seen=again.summary)
    assert not again.incarnations()
    again.patch({"earlierClaims": {"policy": "Adopt", "clusterId": cluster_id}})
    assert again.wait_ready(3).keys == keys
    assert again.claims_by_uid() == claims
