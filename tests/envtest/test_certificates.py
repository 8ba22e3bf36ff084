"""Certificates with the real operator, a real API server and real nodes: made, renewed and replaced while clients write."""

import httpx
import pytest

from support.envtest import kill_points
from support.envtest.environment import Env
from support.envtest.http_proxy import Moment
from support.envtest.kill_points import KillPoint
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = pytest.mark.envtest

_TLS = {"mode": "Managed"}
_ROTATE = "metadataquorum.dev/rotate-ca"
_ROTATION_TIMEOUT_S = 120.0


def secured(env: Env, *, disks: bool = False) -> ApiServerQuorum:
    operator, _ = env.add_operator()
    operator.start()
    return env.create(3, disks=disks, tls=_TLS)


def pods(quorum: ApiServerQuorum) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in quorum.pods())


def presented(quorum: ApiServerQuorum) -> dict[str, str]:
    """Pod → fingerprint of the certificate that its process shows."""
    return {
        pod: quorum.fetch_from(pod, "/v1/node")["tls"]["certificate"]["sha256"]
        for pod in pods(quorum)
    }


def trusted(quorum: ApiServerQuorum) -> dict[str, set[str]]:
    """Pod → subjects of the authorities that its process trusts."""
    return {
        pod: {each["subject"] for each in quorum.fetch_from(pod, "/v1/node")["tls"]["trusted"]}
        for pod in pods(quorum)
    }


def rotate(quorum: ApiServerQuorum, generation: int) -> None:
    """Ask for another authority."""
    quorum.api.merge(quorum.path, {"metadata": {"annotations": {_ROTATE: str(generation)}}})


def wait_for_authority(quorum: ApiServerQuorum, generation: int) -> None:
    """Until it is the only one that members trust, and all is settled."""

    def alone() -> bool:
        found = trusted(quorum).values()
        only = all(len(each) == 1 and f"CA {generation}" in min(each) for each in found)
        return only and reason(quorum, "TlsReady") == "CertificatesIssued"

    wait_for(
        f"authority {generation} alone", alone, timeout_s=_ROTATION_TIMEOUT_S, seen=quorum.summary
    )


def reason(quorum: ApiServerQuorum, kind: str) -> str:
    return str((quorum.condition(kind) or {}).get("reason"))


def test_quorum_of_three_forms_with_certificates_and_loads_a_renewed_leaf(env: Env) -> None:
    quorum = secured(env)
    assert reason(quorum, "TlsReady") == "CertificatesIssued"
    assert quorum.status()["tls"]["authority"] == 1
    pod = pods(quorum)[0]
    address = quorum.api.get(kube.core(env.namespace, "pods", pod))["status"]["podIP"]
    with httpx.Client(verify=False, trust_env=False) as stranger:
        wait_for(
            "probes need no client certificate",
            lambda: stranger.get(f"http://{address}:8080/readyz").is_success,
            timeout_s=MOVE_TIMEOUT_S,
        )
        assert stranger.get(f"http://{address}:8080/v1/node").status_code == 404
        assert stranger.get(f"https://{address}:8443/v1/node").status_code == 401
    with pytest.raises(httpx.TransportError, match="Hostname mismatch"):
        quorum.admin.get(f"https://{address}:8443/v1/node", "other.pod.svc", timeout_s=5)
    before, begun = presented(quorum), quorum.starts()
    quorum.api.delete(kube.core(env.namespace, "secrets", f"{pod.removesuffix('-0')}-tls"))

    def renewed() -> bool:
        now = presented(quorum)
        return now[pod] != before[pod] and {**now, pod: ""} == {**before, pod: ""}

    wait_for("a new certificate", renewed, timeout_s=MOVE_TIMEOUT_S, seen=quorum.summary)
    assert quorum.starts() == begun, "a pod was restarted"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_replacement_of_a_failed_disk_has_its_own_certificate(env: Env) -> None:
    quorum = secured(env, disks=True)
    load = env.start_load(quorum)
    failed = quorum.fail_disk(quorum.voter(leader=True))
    quorum.wait_replaced(failed, 3)
    assert len(presented(quorum)) == 3
    env.prove_nothing_lost(load)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_authority_and_all_leaves_are_rotated_while_clients_write(env: Env) -> None:
    quorum = secured(env)
    load = env.start_load(quorum)
    before, begun = presented(quorum), quorum.starts()
    rotate(quorum, 2)
    wait_for_authority(quorum, 2)
    after = presented(quorum)
    assert all(after[pod] != before[pod] for pod in before)
    assert quorum.starts() == begun, "a pod was restarted"
    load.wait_for_acknowledgement(timeout_s=30)
    env.prove_nothing_lost(load)


_KILLS = (
    "POST secrets q-ca-G",
    "PATCH configmaps/q-trust",
    "PATCH secrets/q-N-I-tls ca-generation trusted-cas",
    "PATCH secrets/q-ca-G ca-signing",
    "PATCH secrets/q-ca-G ca-signed-until",
    "PATCH secrets/q-ca-G ca-retired",
)
"""What a replacement of the authority writes."""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("purpose", _KILLS)
def test_new_operator_completes_an_authority_rotation_of_a_killed_operator(
    env: Env, purpose: str, moment: Moment
) -> None:
    operator, proxy = env.add_operator()
    operator.start()
    quorum = env.create(3, tls=_TLS)
    load = env.start_load(quorum)
    hold = env.cluster.run(lambda: proxy.hold(kill_points.matcher(KillPoint(purpose, 1)), moment))
    try:
        rotate(quorum, 2)
        env.cluster.wait_inside(purpose, hold.reached.wait, timeout_s=60)
    finally:
        operator.kill()
        env.cluster.run(hold.abandon)
        env.cluster.run(proxy.disarm)
        operator.start()
    wait_for_authority(quorum, 2)
    env.prove_nothing_lost(load)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_lost_authority_key_is_replaced_by_the_next_authority(env: Env) -> None:
    quorum = secured(env)
    load = env.start_load(quorum)
    begun = quorum.starts()
    quorum.api.delete(kube.core(env.namespace, "secrets", "q-ca-1"))
    wait_for_authority(quorum, 2)
    assert quorum.starts() == begun
    env.prove_nothing_lost(load)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_changed_token_needs_no_restart_and_a_running_repair_continues(
    env: Env, replaced: bool
) -> None:
    quorum = secured(env, disks=True)
    load = env.start_load(quorum)
    before, begun = quorum.token(), quorum.starts()
    secret = kube.core(env.namespace, "secrets", "q-admin")
    if replaced:
        quorum.api.merge(secret, {"stringData": {"token": "another-token-of-an-administrator"}})
    else:
        quorum.api.delete(secret)

    def another() -> bool:
        return quorum.api.find(secret) is not None and quorum.token() != before

    wait_for("another token", another, timeout_s=MOVE_TIMEOUT_S, seen=quorum.summary)
    load.renew_token()
    assert quorum.starts() == begun
    quorum.wait_replaced(quorum.fail_disk(quorum.voter(leader=True)), 3)
    assert not quorum.condition_is("Refused")
    env.prove_nothing_lost(load)
