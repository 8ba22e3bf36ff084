"""An authority of the user's own and others to trust, with the real operator, a real API server and real nodes, while clients write."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest

from support.envtest.environment import Env
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.generated_certificates import Issued, authority, key_pem, pem
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.long, pytest.mark.timeout(600)]

_TIMEOUT_S = 120.0


def corporate(name: str) -> Issued:
    now = datetime.now(UTC)
    return authority(name, start=now - timedelta(days=1), end=now + timedelta(days=900))


def encoded(text: bytes) -> str:
    return b64encode(text).decode()


def pair(made: Issued) -> dict[str, str]:
    return {
        "tls.crt": encoded(pem(made.certificate)),
        "tls.key": encoded(key_pem(made.key)),
    }


def put(env: Env, name: str, data: dict[str, str]) -> None:
    """A Secret of a user, made or changed."""
    path = kube.core(env.namespace, "secrets", name)
    if env.api.find(path) is not None:
        env.api.merge(path, {"data": data})
        return
    meta = {"name": name, "namespace": env.namespace}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    env.api.create(kube.core(env.namespace, "secrets"), document)


def trusted(quorum: ApiServerQuorum) -> list[set[str]]:
    """Subjects of the authorities that each process trusts."""
    names = sorted(pod["metadata"]["name"] for pod in quorum.pods())
    shown = (quorum.fetch_from(each, "/v1/node")["tls"]["trusted"] for each in names)
    return [{each["subject"] for each in found} for found in shown]


def wait_trusted(quorum: ApiServerQuorum, subjects: set[str]) -> None:
    wait_for(
        f"{subjects} alone",
        lambda: all(each == subjects for each in trusted(quorum)),
        timeout_s=_TIMEOUT_S,
        seen=quorum.summary,
    )


def blocked(quorum: ApiServerQuorum) -> str:
    return str((quorum.condition("TlsBlocked") or {}).get("reason"))


def wait_blocked(quorum: ApiServerQuorum, reason: str) -> None:
    wait_for(
        reason,
        lambda: blocked(quorum) == reason,
        timeout_s=MOVE_TIMEOUT_S + 75.0,  # Secrets are read again within a minute
        seen=quorum.summary,
    )


@pytest.mark.requirement("OP-11")
def test_user_provided_authority_is_used_damaged_lost_and_replaced_under_load(
    env: Env,
) -> None:
    put(env, "corporate", pair(corporate("Corporate 1")))
    operator, _ = env.add_operator()
    operator.start()
    quorum = env.create(3, tls={"mode": "Managed", "caSecret": {"name": "corporate"}})
    assert trusted(quorum) == [{"CN=Corporate 1"}] * 3
    load = env.start_load(quorum)
    begun = quorum.starts()
    put(env, "corporate", {"tls.key": pair(corporate("Other"))["tls.key"]})
    wait_blocked(quorum, "KeyMismatch")
    env.api.delete(kube.core(env.namespace, "secrets", "corporate"))
    wait_blocked(quorum, "Missing")
    load.wait_for_acknowledgement(timeout_s=30)
    put(env, "corporate", pair(corporate("Corporate 2")))
    wait_trusted(quorum, {"CN=Corporate 2"})
    wait_blocked(quorum, "NothingBlocked")
    assert quorum.starts() == begun, "a pod was restarted"
    env.prove_nothing_lost(load)


@pytest.mark.requirement("OP-11")
def test_additional_trusted_authorities_are_added_and_removed_under_load(env: Env) -> None:
    operator, _ = env.add_operator()
    operator.start()
    quorum = env.create(3, tls={"mode": "Managed"})
    load = env.start_load(quorum)
    begun = quorum.starts()
    own = f"CN=quorum CA 1,O={quorum.name}.{env.namespace}"
    put(env, "partners", {"ca.crt": encoded(pem(corporate("Partner").certificate))})
    quorum.patch({"tls": {"trustedCAs": [{"secret": {"name": "partners"}}]}})
    wait_trusted(quorum, {own, "CN=Partner"})
    env.api.delete(kube.core(env.namespace, "secrets", "partners"))
    wait_blocked(quorum, "TrustedMissing")
    assert trusted(quorum) == [{own, "CN=Partner"}] * 3, "trusted certificates were removed"
    quorum.patch({"tls": {"trustedCAs": None}})
    wait_trusted(quorum, {own})
    assert quorum.starts() == begun
    env.prove_nothing_lost(load)
