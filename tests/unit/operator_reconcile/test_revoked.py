"""`spec.tls.revoked` in the real reconcile: members are configured with the file once, and get every change of it without a restart."""

from typing import Any

import pytest

from quorum_operator.certificates import checks
from quorum_operator.kube import paths
from support.in_memory_kube_api import SPACE, running_quorum
from support.secured_quorum import Env, leaf_path, secret_path

pytestmark = pytest.mark.requirement("OP-11")

MEMBERS = (1, 2, 3)
CONFIG = paths.namespaced("configmaps", SPACE, "demo-config")
KEY = "quorum.ssl.revoked.location=/etc/metadataquorum-tls/revoked"
LIST = {"configMap": {"name": "lists"}}


def env_with(revoked: dict[str, Any] | None) -> Env:
    env = Env(running_quorum(3, tls=True))
    ask(env, revoked)
    return env


def ask(env: Env, revoked: dict[str, Any] | None) -> None:
    more = {} if revoked is None else {"revoked": revoked}
    env.api.change_spec(tls={"mode": "Managed", **more})


def put_list(env: Env, text: str) -> None:
    meta = {"name": "lists", "namespace": SPACE, "uid": "of-a-user", "labels": {}}
    path = paths.namespaced("configmaps", SPACE, "lists")
    env.api.objects[path] = {
        "metadata": {**meta, "resourceVersion": "1"},
        "data": {"ca.crl": text},
    }


def files(env: Env) -> set[str | None]:
    """What the members' Secrets have of it."""
    found = [checks.decoded(env.api.objects[leaf_path(each)]["data"]) for each in MEMBERS]
    return {each["revoked"].decode() if "revoked" in each else None for each in found}


def serials(env: Env) -> set[str]:
    (text,) = files(env)
    assert text is not None
    return {line.removeprefix("serial=") for line in text.splitlines() if line.startswith("serial")}


def config(env: Env) -> str:
    (text,) = env.api.objects[CONFIG]["data"].values()
    return str(text)


def deleted(env: Env) -> int:
    return sum(1 for verb, _ in env.api.writes if verb == "delete")


def templates_written(env: Env) -> int:
    return sum(1 for verb, path in env.api.writes if verb == "patch" and "/statefulsets/" in path)


def test_quorum_without_revocations_is_unchanged() -> None:
    env = env_with(None)
    env.settle()
    assert files(env) == {None}
    assert KEY not in config(env)


def test_first_revocation_restarts_members_one_at_a_time_and_the_file_exists_by_then() -> None:
    env = env_with(None)
    env.settle()
    ask(env, {"serials": ["0A"]})
    operator = env.operator()
    for _ in range(20):
        env.looks(1, operator)
        if deleted(env):
            break
    assert deleted(env) == 1, "two members restarted at once"
    assert serials(env) == {"a"}
    assert KEY in config(env)


def test_later_revocations_reach_the_members_without_a_restart() -> None:
    """Their pods were made with an empty entry, so that they read the file already."""
    env = Env(running_quorum(3, tls=True, tls_spec={"mode": "Managed", "revoked": {}}))
    env.settle()
    assert serials(env) == set()
    for requested, found in (
        ({"serials": ["0A"]}, {"a"}),
        ({"serials": ["0A", "serial=0B"]}, {"a", "b"}),
        ({"serials": []}, set()),
        ({"serials": ["0C"]}, {"c"}),
        ({}, set()),
    ):
        ask(env, requested)
        env.settle()
        assert serials(env) == found
    assert (deleted(env), templates_written(env)) == (0, 0)


def test_changed_revocation_object_reaches_members_and_an_invalid_one_is_reported_and_ignored() -> (
    None
):
    env = env_with({"lists": [LIST]})
    put_list(env, "0C\n")
    env.settle()
    assert serials(env) == {"c"}
    put_list(env, "0C\n0D\n")
    env.settle()
    assert serials(env) == {"c", "d"}
    put_list(env, "what is this\n")
    ask(env, {"lists": [LIST], "serials": ["0E"]})
    env.settle()
    assert serials(env) == {"c", "d", "e"}
    blocked = env.api.condition("TlsBlocked")
    assert (blocked["status"], blocked["reason"]) == ("True", "RevokedUnreadable")
    assert "ConfigMap space/lists" in blocked["message"]
    put_list(env, "0D\n")
    env.settle()
    assert serials(env) == {"d", "e"}
    assert env.api.condition("TlsBlocked")["status"] == "False"


def test_new_member_starts_with_the_revocation_file_and_no_other_holder_has_one() -> None:
    env = env_with({"serials": ["0A"]})
    env.settle()
    del env.api.objects[leaf_path(2)]
    env.settle()
    assert serials(env) == {"a"}
    assert "revoked" not in env.api.objects[secret_path("demo-admin-tls")]["data"]
