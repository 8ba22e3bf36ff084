"""Certificates in the real reconcile: issued, renewed and replaced write by write, whatever is deleted, rejected or killed."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from quorum_operator.certificates import documents, holders, steps, store
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.desired import names
from quorum_operator.desired.identity import TLS_ON
from quorum_operator.kube.errors import AlreadyExists, Conflict, Forbidden
from support.in_memory_kube_api import (
    NAME,
    OWNER,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    reconciler,
    running_quorum,
)
from support.secured_quorum import (
    TRUST,
    Env,
    bundle_in,
    leaf_in,
    leaf_path,
    secret_path,
)

IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"
MEMBERS = (1, 2, 3)


class Killed(BaseException):
    """The operator's process ends."""


def test_quorum_formed_with_certificates_gets_them() -> None:
    env = Env()
    env.settle()
    made = set(env.api.created("secrets"))
    assert made == {"demo-ca-1", "demo-admin-tls", *(f"demo-{each}-1-tls" for each in MEMBERS)}
    assert env.api.created("configmaps") == ["demo-trust"]
    for node_id in MEMBERS:
        leaf = leaf_in(env.api.objects[leaf_path(node_id)])
        assert leaf.uris == {f"urn:metadataquorum:{SPACE}:demo:member:{node_id}"}
        assert OWNER.host(f"demo-{node_id}-1") in leaf.dns_names
    assert env.ready()["status"] == "True"
    assert env.api.status["tls"]["authority"] == 1
    assert env.nodes.pod_clients, "the pods were not called over TLS"


def test_valid_certificates_are_not_rewritten() -> None:
    env = Env()
    env.settle()
    env.api.writes.clear()
    env.looks(5)
    assert env.api.writes == []


def test_quorum_without_certificates_gets_none_and_reports_it() -> None:
    api = running_quorum(3)
    before = copy.deepcopy(api.objects)
    asyncio.run(reconciler(api, HealthyNodes(3)).reconcile(SPACE, NAME))
    assert [path for _, path in api.writes if "persistentvolumeclaims" not in path] == []
    condition = api.condition("TlsReady")
    assert (condition["status"], condition["reason"]) == ("False", "Disabled")
    assert "network policy" in condition["message"]
    assert "tls" not in api.status
    sets = [path for path in before if "/statefulsets/" in path]
    assert all(api.objects[path]["spec"] == before[path]["spec"] for path in sets)


def test_tls_only_cannot_be_reverted() -> None:
    api = running_quorum(3, tls=True)
    env = Env(api)
    env.settle()
    api.change_spec(tls={"mode": "Disabled"})
    sets = {path: copy.deepcopy(each) for path, each in api.objects.items() if "sets/" in path}
    asyncio.run(env.operator().reconcile(SPACE, NAME))
    condition = api.condition("SpecInvalid")
    assert condition["status"] == "True"
    assert (
        "going back is not supported: set Managed, or create a new MetadataQuorum"
        in condition["message"]
    )
    assert all(api.objects[path]["spec"] == each["spec"] for path, each in sets.items())


def test_recreated_identity_keeps_the_certificates_setting() -> None:
    """Otherwise deleting a ConfigMap would remove TLS from all members, one by one."""
    env = Env()
    env.settle()
    del env.api.objects[IDENTITY]
    for each in env.api.objects.values():
        each["metadata"].get("annotations", {}).pop(names.ANNOTATION_TLS, None)
    env.looks(6)
    assert env.api.objects[IDENTITY]["data"]["tls"] == TLS_ON
    assert not [path for verb, path in env.api.writes if verb == "delete" and "/pods/" in path]


def test_deleted_leaf_is_recreated_and_the_member_loads_it() -> None:
    env = Env()
    env.settle()
    before = leaf_in(env.api.objects.pop(leaf_path(2)))
    env.settle()
    after = leaf_in(env.api.objects[leaf_path(2)])
    assert after.fingerprint != before.fingerprint
    assert env.nodes.loaded[2][0] == after
    assert not [p for verb, p in env.api.writes if verb == "delete" and "/pods/" in p], (
        "a pod was restarted"
    )


def test_leaves_are_renewed_one_at_a_time_and_the_leader_last() -> None:
    env = Env()
    env.settle()
    env.nodes.now += 61 * DAY_S
    env.api.writes.clear()
    env.settle()
    order = [path for _, path in env.api.writes if "-tls" in path and "admin" not in path]
    assert order == [leaf_path(2), leaf_path(3), leaf_path(1)]


def test_next_leaf_waits_until_the_previous_one_is_loaded() -> None:
    env = Env()
    env.settle()
    env.nodes.now += 61 * DAY_S
    env.nodes.stuck = {2}
    env.api.writes.clear()
    env.looks(6)
    assert [path for _, path in env.api.writes if "-1-tls" in path] == [leaf_path(2)]
    assert (env.ready()["status"], env.ready()["reason"]) == ("True", "Renewing")
    assert "demo-2-1 has not loaded" in env.ready()["message"]


def test_authority_is_replaced_once_per_request() -> None:
    env = Env()
    env.settle()
    env.ask_for(2)
    env.settle()
    assert [env.authority_of(each) for each in MEMBERS] == [2, 2, 2]
    (left,) = bundle_in(env.api.objects[leaf_path(1)])
    assert left.generation == 2
    assert env.api.status["tls"]["authority"] == 2
    assert env.api.condition("TrustPending")["status"] == "False"
    assert secret_path("demo-ca-3") not in env.api.objects


def test_request_far_beyond_the_next_generation_replaces_the_authority_once() -> None:
    """Such as a time, as people know it from other annotations that ask for a restart."""
    env = Env()
    env.settle()
    env.ask_for(1_796_000_000)
    env.settle()
    env.looks(6)
    assert [env.authority_of(each) for each in MEMBERS] == [2, 2, 2]
    env.ask_for(3)
    env.settle()
    assert [env.authority_of(each) for each in MEMBERS] == [3, 3, 3]


def test_next_authority_signs_nothing_before_every_member_trusts_it() -> None:
    env = Env()
    env.settle()
    env.nodes.stuck = {3}
    env.ask_for(2)
    env.looks(10)
    pending = env.api.condition("TrustPending")
    assert (pending["status"], pending["reason"]) == ("True", "WaitingForMembers")
    assert "demo-3-1" in pending["message"]
    notes = env.api.objects[secret_path("demo-ca-2")]["metadata"].get("annotations") or {}
    assert documents.ANNOTATION_SIGNING not in notes
    env.nodes.stuck.clear()
    env.settle()
    assert env.authority_of(3) == 2


def test_rotation_waits_for_brokers_until_a_confirmation() -> None:
    broker = {"name": "broker-7", "role": "broker", "nodeId": 7}
    env = Env(running_quorum(3, tls=True))
    env.api.change_spec(tls={"mode": "Managed", "identities": [broker]})
    env.settle()
    leaf = leaf_in(env.api.objects[secret_path("demo-broker-7-tls")])
    assert leaf.uris == {f"urn:metadataquorum:{SPACE}:demo:broker:7"}
    env.ask_for(2)
    env.looks(6)
    pending = env.api.condition("TrustPending")
    assert (pending["status"], pending["reason"]) == ("True", "WaitingForBrokers")
    assert "broker-7" in pending["message"]
    assert [env.authority_of(each) for each in MEMBERS] == [1, 1, 1], "it signs nothing yet"
    env.annotate(names.ANNOTATION_BROKERS_TRUST, "2")
    env.looks(12)
    assert [env.authority_of(each) for each in MEMBERS] == [2, 2, 2]
    assert len(bundle_in(env.api.objects[leaf_path(1)])) == 2, "the broker presents the old one"
    env.annotate(names.ANNOTATION_BROKERS_RENEWED, "2")
    env.settle()
    assert len(bundle_in(env.api.objects[leaf_path(1)])) == 1


@pytest.mark.parametrize("lost", ["demo-ca-1", "demo-1-1-tls", "demo-admin-tls"])
def test_deleted_objects_are_recreated_and_trust_is_kept(lost: str) -> None:
    env = Env()
    env.settle()
    del env.api.objects[secret_path(lost)]
    env.settle()
    if "ca" not in lost:
        assert secret_path(lost) in env.api.objects
    else:
        assert env.api.status["tls"]["authority"] == 2


def test_operator_without_the_authority_key_connects_with_an_existing_pair() -> None:
    """Otherwise it could query no pod, and would wait for unreachable members until all certificates have expired."""
    env = Env()
    env.settle()
    del env.api.objects[secret_path("demo-ca-1")]
    env.nodes.stuck = {1, 2, 3}
    operator = env.operator()
    env.looks(3, operator)
    opened = operator._memory.of(OWNER).opened
    assert opened is not None
    there = leaf_in(env.api.objects[secret_path("demo-admin-tls")])
    assert opened.pair is None
    assert opened.key.presented == there.fingerprint


def test_certificates_that_expired_without_an_operator_are_replaced() -> None:
    env = Env()
    env.settle()
    env.nodes.now += 400 * DAY_S
    env.nodes.loaded.clear()
    env.settle()
    for node_id in MEMBERS:
        leaf = leaf_in(env.api.objects[leaf_path(node_id)])
        assert leaf.validity.not_after > env.nodes.now


def test_operators_own_certificate_of_a_clock_that_was_ahead_is_signed_again() -> None:
    """Members refuse one that is not valid yet: after the clock was set right, the operator would reach nobody for hours."""
    env = Env()
    env.settle()
    operator = env.operator()
    env.nodes.now += 6 * 3600
    env.looks(2, operator)
    env.nodes.now -= 6 * 3600
    env.looks(2, operator)
    opened = operator._memory.of(OWNER).opened
    assert opened is not None
    assert opened.pair is not None
    validity = opened.pair[0].certificate.validity
    assert validity.not_before <= env.nodes.now < validity.leaf_due_at


def test_foreign_secret_is_neither_used_nor_changed() -> None:
    env = Env()
    meta = {"name": "demo-2-1-tls", "namespace": SPACE, "uid": "foreign", "labels": {}}
    foreign: dict[str, Any] = {
        "metadata": {**meta, "resourceVersion": "7"},
        "data": {"tls.key": "c2VjcmV0"},
    }
    env.api.objects[leaf_path(2)] = copy.deepcopy(foreign)
    env.looks(6)
    assert env.api.objects[leaf_path(2)] == foreign
    assert (env.ready()["status"], env.ready()["reason"]) == ("False", "WriteRefused")
    assert "demo-2-1-tls" in env.ready()["message"]
    assert leaf_path(1) in env.api.objects


@pytest.mark.parametrize("taken", [leaf_path(2), TRUST])
def test_object_that_cannot_be_written_keeps_no_other_holder_from_being_renewed(taken: str) -> None:
    """Otherwise one foreign Secret, or a quota for new ones, would let the certificates of all members expire."""
    env = Env()
    env.settle()
    meta = {"name": taken.rpartition("/")[2], "namespace": SPACE, "uid": "foreign", "labels": {}}
    foreign: dict[str, Any] = {"metadata": {**meta, "resourceVersion": "7"}, "data": {}}
    env.api.objects[taken] = copy.deepcopy(foreign)
    env.nodes.now += 61 * DAY_S
    env.looks(12)
    assert env.api.objects[taken] == foreign
    assert (env.ready()["status"], env.ready()["reason"]) == ("False", "WriteRefused")
    assert meta["name"] in env.ready()["message"]
    for node_id in {1, 2, 3} - ({2} if taken == leaf_path(2) else set()):
        validity = leaf_in(env.api.objects[leaf_path(node_id)]).validity
        assert env.nodes.now < validity.leaf_due_at


def test_foreign_authority_signs_nothing() -> None:
    env = Env()
    taken: dict[str, Any] = {"metadata": {"name": "demo-ca-1", "uid": "foreign", "labels": {}}}
    env.api.objects[secret_path("demo-ca-1")] = copy.deepcopy(taken)
    env.settle()
    assert env.api.objects[secret_path("demo-ca-1")] == taken
    assert env.api.status["tls"]["authority"] == 2


def test_rejected_write_is_reported_and_the_quorum_continues() -> None:
    env = Env()
    service = f"/api/v1/namespaces/{SPACE}/services/demo-admin"

    def forbidden(verb: str, path: str) -> None:
        if verb != "get" and "/secrets/" in path:
            raise Forbidden(403, "Forbidden", "secrets is forbidden")

    env.api.refuse = forbidden
    del env.api.objects[service]
    env.looks(4)
    assert service in env.api.objects
    assert (env.ready()["status"], env.ready()["reason"]) == ("False", "WriteRefused")
    assert "secrets is forbidden" in env.ready()["message"]


def test_paused_quorum_gets_no_certificates() -> None:
    env = Env()
    env.api.change_spec(paused=True)
    env.looks(3)
    assert not env.api.created("secrets")
    assert "spec.paused is set, so nothing is issued" in env.ready()["message"]


def test_paused_quorum_says_that_it_does_not_renew_certificates() -> None:
    """They expire when the pause lasts longer than a month."""
    env = Env()
    env.settle()
    env.api.change_spec(paused=True)
    env.looks(1)
    assert "spec.paused" not in env.ready()["message"]
    env.nodes.now += 61 * DAY_S
    env.looks(2)
    ready = env.ready()
    assert (ready["status"], ready["reason"]) == ("True", "Renewing")
    assert "spec.paused is set, so nothing is issued or renewed" in ready["message"]


def test_neither_status_nor_events_contain_a_key() -> None:
    env = Env()
    env.settle()
    env.ask_for(2)
    env.settle()
    message = f"{env.api.status}{env.api.events}"
    assert "PRIVATE" not in message
    assert "BEGIN" not in message


def _killed_at(env: Env, call: int) -> bool:
    """Whether the operator was killed at its `call`-th write: in every second case the write was executed, and its response lost."""
    count = 0

    def counted(keep: Callable[..., Any], verb: str) -> Callable[..., Any]:
        async def called(path: str, *arguments: Any, **more: Any) -> Any:
            nonlocal count
            count += "/secrets" in path or path == TRUST or path.endswith("/configmaps")
            if count == call and call % 2:
                raise Killed
            result = await keep(path, *arguments, **more)
            if count == call:
                raise Killed
            return result

        return called

    kept = {verb: getattr(env.api, verb) for verb in ("create", "merge")}
    for verb, keep in kept.items():
        setattr(env.api, verb, counted(keep, verb))
    try:
        env.looks(1)
        return False
    except Killed:
        return True
    finally:
        for verb, keep in kept.items():
            setattr(env.api, verb, keep)


@pytest.mark.parametrize(
    "call",
    [pytest.param(each, marks=[] if each in {2, 7} else pytest.mark.long) for each in range(1, 13)],
)
def test_new_operator_completes_the_writes_of_an_operator_killed_at_any_write(
    call: int,
) -> None:
    """While certificates are made first, and while the authority is replaced."""
    env = Env()
    _killed_at(env, call)
    env.settle()
    env.ask_for(2)
    for _ in range(6):
        _killed_at(env, call)
        assert env.nodes.trust_failures() == []
    env.settle()
    assert [env.authority_of(each) for each in MEMBERS] == [2, 2, 2]
    assert secret_path("demo-ca-3") not in env.api.objects


def test_clients_with_replaced_certificates_are_closed() -> None:
    env = Env()
    env.settle()
    env.ask_for(2)
    operator = env.operator()
    env.http.clear()
    env.looks(12, operator)
    assert len(env.http) > 1
    *earlier, last = env.http
    assert all(each.is_closed for each in earlier)
    assert not last.is_closed
    del env.api.objects[env.api.resource_path]
    asyncio.run(operator.reconcile(SPACE, NAME))
    assert last.is_closed


def test_annotation_is_processed_while_the_quorum_is_idle() -> None:
    """Watched changes are processed, and no Secret is read, until then."""
    env = Env()
    env.settle()
    kept = InMemoryKubeApi({})
    operator = env.operator(kept)
    kept.objects = env.api.objects
    env.looks(3, operator)
    known = operator._memory.known(SPACE, NAME)
    assert known is not None
    known.moved_at = float("-inf")
    env.api.calls.clear()
    env.looks(2, operator)
    assert not env.api.calls, "nothing is read live"
    env.ask_for(2)
    env.looks(1, operator)
    assert secret_path("demo-ca-2") in env.api.objects


def test_secrets_are_reread_periodically() -> None:
    env = Env()
    env.settle()
    kept = InMemoryKubeApi({})
    operator = env.operator(kept)
    kept.objects = env.api.objects
    env.looks(3, operator)
    known = operator._memory.known(SPACE, NAME)
    assert known is not None
    assert known.certificates is not None
    known.moved_at = float("-inf")
    known.certificates = (known.certificates[0], 0.0)
    del env.api.objects[leaf_path(3)]
    env.looks(1, operator)
    assert leaf_path(3) in env.api.objects


def test_stale_write_is_rejected() -> None:
    """Of an operator that was held up, or of a second one: what it judged is not there any more."""
    env = Env()
    env.settle()
    holder = holders.member(OWNER, 2, 1)
    api: Any = env.api

    async def late() -> None:
        found = await store.read(api, OWNER, (holder,))
        secret = found.objects.leaves[holder.name]
        step = steps.WriteLeaf(
            holder, 1, bundle_in(secret), documents.version_of(secret), "it is due"
        )
        await store.write(api, OWNER, found, step, env.nodes.now)
        with pytest.raises(Conflict):
            await store.write(api, OWNER, found, step, env.nodes.now)
        with pytest.raises(AlreadyExists):
            await store.write(
                api, OWNER, found, steps.CreateAuthority(1, True, "again"), env.nodes.now
            )

    asyncio.run(late())


def test_two_concurrent_operators_create_one_authority() -> None:
    env = Env()
    env.settle()
    env.ask_for(2)
    both = [env.operator(), env.operator()]

    async def run() -> None:
        for _ in range(15):
            await asyncio.gather(*(each.reconcile(SPACE, NAME) for each in both))
            assert env.nodes.trust_failures() == []

    asyncio.run(run())
    env.settle()
    assert [env.authority_of(each) for each in MEMBERS] == [2, 2, 2]
    assert secret_path("demo-ca-3") not in env.api.objects
