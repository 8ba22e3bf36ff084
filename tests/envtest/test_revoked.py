"""`spec.tls.revoked` with the real operator, a real API server and real nodes: it reaches every member, and no pod restarts."""

import pytest

from support.envtest.environment import Env
from support.envtest.kube_api import Json
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.long,
    pytest.mark.requirement("OP-11"),
    pytest.mark.usefixtures("operator"),
]

_LIST = {"configMap": {"name": "lists"}}


def told(quorum: ApiServerQuorum) -> dict[str, tuple[int, str]]:
    """Pod → how many certificates its process rejects, and which."""
    found = {}
    for pod in quorum.pods():
        name = pod["metadata"]["name"]
        tls = quorum.fetch_from(name, "/v1/node")["tls"]
        found[name] = (tls["revoked"], tls["revokedSha256"])
    return found


def wait_for_count(quorum: ApiServerQuorum, wanted: int) -> None:
    """Until all members refuse the same, so many."""

    def agreed() -> bool:
        found = told(quorum)
        return len(found) == 3 and len(set(found.values())) == 1 and _count(found) == wanted

    wait_for(f"{wanted} are revoked", agreed, timeout_s=90, seen=lambda: told(quorum))


def _count(found: dict[str, tuple[int, str]]) -> int:
    return next(iter(found.values()))[0]


def ask(quorum: ApiServerQuorum, **revoked: object) -> None:
    quorum.patch({"tls": {"mode": "Managed", "revoked": revoked}})


def config_map(text: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "lists"},
        "data": {"ca.crl": text},
    }


def test_revoked_serials_and_lists_reach_all_members_without_a_restart(env: Env) -> None:
    quorum = env.create(3, tls={"mode": "Managed", "revoked": {}})
    wait_for_count(quorum, 0)
    before = quorum.starts()
    ask(quorum, serials=["0A:0B", "serial=0C"])
    wait_for_count(quorum, 2)
    env.api.call("POST", kube.core(env.namespace, "configmaps"), config_map("0D\n0E\n"))
    ask(quorum, serials=["0C"], lists=[_LIST])
    wait_for_count(quorum, 3)
    path = kube.core(env.namespace, "configmaps", "lists")
    env.api.merge(path, {"data": {"ca.crl": "what is this\n"}})
    ask(quorum, serials=["0C", "0F"], lists=[_LIST])
    condition = quorum.wait_condition("TlsBlocked", timeout_s=90)
    assert condition["reason"] == "RevokedUnreadable"
    wait_for_count(quorum, 4)
    env.api.merge(path, {"data": {"ca.crl": "# nobody\n"}})
    wait_for_count(quorum, 2)
    quorum.wait_condition("TlsBlocked", status="False", timeout_s=90)
    assert quorum.starts() == before
    quorum.wait_ready(3)
