"""An authority of the user's own and others to trust, with the real operator, a real API server and real nodes, while clients write."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest

from support.harness.quorum import MOVE_TIMEOUT_S, HarnessQuorum
from support.harness.scene import Scene
from support.made_certificates import Issued, authority, key_pem, pem
from support.trial import kube
from support.trial.waiting import wait_for

pytestmark = [pytest.mark.harness, pytest.mark.long, pytest.mark.timeout(600)]

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


def put(scene: Scene, name: str, data: dict[str, str]) -> None:
    """A Secret of a user, made or changed."""
    path = kube.core(scene.namespace, "secrets", name)
    if scene.api.find(path) is not None:
        scene.api.merge(path, {"data": data})
        return
    meta = {"name": name, "namespace": scene.namespace}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    scene.api.create(kube.core(scene.namespace, "secrets"), document)


def trusted(quorum: HarnessQuorum) -> list[set[str]]:
    """Subjects of the authorities that each process trusts."""
    names = sorted(pod["metadata"]["name"] for pod in quorum.pods())
    shown = (quorum.fetch_from(each, "/v1/node")["tls"]["trusted"] for each in names)
    return [{each["subject"] for each in found} for found in shown]


def starts(quorum: HarnessQuorum) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: quorum.restarts(pod["metadata"]["name"]) for pod in quorum.pods()
    }


def wait_trusted(quorum: HarnessQuorum, subjects: set[str]) -> None:
    wait_for(
        f"{subjects} alone",
        lambda: all(each == subjects for each in trusted(quorum)),
        timeout_s=_TIMEOUT_S,
        seen=quorum.summary,
    )


def blocked(quorum: HarnessQuorum) -> str:
    return str((quorum.condition("TlsBlocked") or {}).get("reason"))


def wait_blocked(quorum: HarnessQuorum, reason: str) -> None:
    wait_for(
        reason,
        lambda: blocked(quorum) == reason,
        timeout_s=MOVE_TIMEOUT_S + 75.0,  # Secrets are read again within a minute
        seen=quorum.summary,
    )


def test_an_authority_of_the_users_own_is_used_spoiled_lost_and_replaced_under_load(
    scene: Scene,
) -> None:
    put(scene, "corporate", pair(corporate("Corporate 1")))
    operator, _ = scene.add_operator()
    operator.start()
    quorum = scene.create(3, tls={"mode": "Managed", "caSecret": {"name": "corporate"}})
    assert trusted(quorum) == [{"CN=Corporate 1"}] * 3
    load = scene.start_load(quorum)
    begun = starts(quorum)
    put(scene, "corporate", {"tls.key": pair(corporate("Other"))["tls.key"]})
    wait_blocked(quorum, "KeyMismatch")
    scene.api.delete(kube.core(scene.namespace, "secrets", "corporate"))
    wait_blocked(quorum, "Missing")
    load.wait_for_acknowledgement(timeout_s=30)
    put(scene, "corporate", pair(corporate("Corporate 2")))
    wait_trusted(quorum, {"CN=Corporate 2"})
    wait_blocked(quorum, "NothingBlocked")
    assert starts(quorum) == begun, "nobody restarts for it"
    scene.prove_nothing_lost(load)


def test_others_are_trusted_and_trusted_no_more_under_load(scene: Scene) -> None:
    operator, _ = scene.add_operator()
    operator.start()
    quorum = scene.create(3, tls={"mode": "Managed"})
    load = scene.start_load(quorum)
    begun = starts(quorum)
    own = f"CN=quorum CA 1,O={quorum.name}.{scene.namespace}"
    put(scene, "partners", {"ca.crt": encoded(pem(corporate("Partner").certificate))})
    quorum.patch({"tls": {"trustedCAs": [{"secret": {"name": "partners"}}]}})
    wait_trusted(quorum, {own, "CN=Partner"})
    scene.api.delete(kube.core(scene.namespace, "secrets", "partners"))
    wait_blocked(quorum, "TrustedMissing")
    assert trusted(quorum) == [{own, "CN=Partner"}] * 3, "nothing is taken away"
    quorum.patch({"tls": {"trustedCAs": None}})
    wait_trusted(quorum, {own})
    assert starts(quorum) == begun
    scene.prove_nothing_lost(load)
