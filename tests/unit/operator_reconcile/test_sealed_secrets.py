"""A member's Secret that can't be written: the others get what they need, and no member restarts without its files."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

from quorum_operator.certificates import checks
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.kube import paths
from quorum_operator.kube.errors import Invalid
from support.generated_certificates import authority, pem
from support.in_memory_kube_api import SPACE, pod_path, running_quorum
from support.secured_quorum import Env, bundle_in, leaf_path

SEALED = Invalid(422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set")


def env_with_sealed(node_id: int) -> Env:
    """The Secret of one member has `immutable: true`, which another client has set."""
    env = Env(running_quorum(3, tls=True))
    env.settle()

    def refuse(verb: str, path: str) -> None:
        if verb == "merge" and path == leaf_path(node_id):
            raise SEALED

    env.api.refuse = refuse
    return env


def has_the_file(env: Env, node_id: int) -> bool:
    return "revoked" in checks.decoded(env.api.objects[leaf_path(node_id)]["data"])


def restarted(env: Env) -> set[int]:
    return {each for each in (1, 2, 3) if pod_path(each) not in env.api.objects}


def test_others_get_their_revoked_certificates_and_no_member_restarts_without_the_file() -> None:
    env = env_with_sealed(2)
    env.api.change_spec(tls={"mode": "Managed", "revoked": {"serials": ["0A"]}})
    operator = env.operator()
    for _ in range(10):
        env.looks(1, operator)
        if restarted(env):
            break
    assert [each for each in (1, 2, 3) if has_the_file(env, each)] == [1, 3]
    assert restarted(env) == {3}
    assert "Secret/demo-2-1-tls" in env.ready()["message"]


def test_no_authority_signs_before_every_secret_has_it() -> None:
    env = env_with_sealed(1)
    before = dict(env.nodes.loaded)
    env.ask_for(2)
    env.looks(8)
    assert len(bundle_in(env.api.objects[leaf_path(3)])) == 2
    assert {each: env.nodes.loaded[each][0] for each in before} == {
        each: pair[0] for each, pair in before.items()
    }
    env.api.refuse = lambda verb, path: None
    env.nodes.now += 300
    env.settle()
    assert [env.authority_of(each) for each in (1, 2, 3)] == [2, 2, 2]


def trust_partners(env: Env) -> None:
    """Every bundle has to change."""
    now = datetime.now(UTC)
    made = authority("Partners", start=now - timedelta(days=1), end=now + timedelta(days=900))
    meta = {
        "name": "partners",
        "namespace": SPACE,
        "uid": "u",
        "labels": {},
        "resourceVersion": "1",
    }
    path = paths.namespaced("configmaps", SPACE, "partners")
    env.api.objects[path] = {"metadata": meta, "data": {"ca.crt": pem(made.certificate).decode()}}
    env.api.change_spec(
        tls={"mode": "Managed", "trustedCAs": [{"configMap": {"name": "partners"}}]}
    )


def test_others_are_renewed_beside_a_bundle_that_cannot_be_written() -> None:
    """It contains the authority that signs."""
    env = env_with_sealed(1)
    before = {each: env.nodes.loaded[each][0] for each in (1, 2, 3)}
    trust_partners(env)
    env.looks(3)
    assert [len(bundle_in(env.api.objects[leaf_path(each)])) for each in (1, 2, 3)] == [1, 2, 2]
    env.nodes.now += 61 * DAY_S
    env.looks(8)
    renewed = [each for each in (1, 2, 3) if env.nodes.loaded[each][0] != before[each]]
    assert renewed == [2, 3]


def test_nobody_is_renewed_by_an_authority_that_a_sealed_bundle_lacks() -> None:
    """The member with that Secret may not trust what is signed."""
    env = env_with_sealed(1)
    other = authority("Others")
    data = env.api.objects[leaf_path(1)]["data"]
    data["ca.crt"] = b64encode(pem(other.certificate)).decode()
    env.nodes.stuck = {1}
    before = {each: env.nodes.loaded[each][0] for each in (1, 2, 3)}
    env.nodes.now += 61 * DAY_S
    env.looks(8)
    assert {each: env.nodes.loaded[each][0] for each in (1, 2, 3)} == before
