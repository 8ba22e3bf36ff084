"""cert-manager issues (`spec.tls.issuerRef`), with the real operator, a real API server and real nodes, while clients write.

cert-manager itself is a stand-in: its definition from the documented fields, and a controller that signs what is asked for.
"""

import time
from base64 import b64encode

import pytest

from support import chart
from support.harness.issuing_controller import IssuingController
from support.harness.quorum import MOVE_TIMEOUT_S, HarnessQuorum
from support.harness.scene import Scene
from support.modelled_issuer import ModelledIssuer
from support.trial import kube
from support.trial.waiting import wait_for

pytestmark = [pytest.mark.harness, pytest.mark.long, pytest.mark.timeout(600)]

_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces"
_TLS = {
    "mode": "Managed",
    "issuerRef": {"name": "internal"},
    "trustedCAs": [{"secret": {"name": "internal-ca"}}],
}


def allow(scene: Scene) -> None:
    """What the chart grants with certManager.enabled (tests/unit/packaging/test_chart.py)."""
    space = scene.namespace
    verbs = ["get", "create", "patch"]
    rule = {"apiGroups": ["cert-manager.io"], "resources": ["certificates"], "verbs": verbs}
    group, meta = "rbac.authorization.k8s.io", {"name": "issuer", "namespace": space}
    version = f"{group}/v1"
    role = {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": [rule]}
    account = {"kind": "ServiceAccount", "name": chart.RELEASE, "namespace": chart.NAMESPACE}
    binding = {
        "apiVersion": version,
        "kind": "RoleBinding",
        "metadata": meta,
        "subjects": [account],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "issuer"},
    }
    scene.api.apply(f"{_ROLES}/{space}/roles/issuer", role)
    scene.api.apply(f"{_ROLES}/{space}/rolebindings/issuer", binding)


def trust(scene: Scene, *issuers: ModelledIssuer) -> None:
    """What spec.tls.trustedCAs names."""
    data = {"ca.crt": b64encode(b"".join(each.trust_pem for each in issuers)).decode()}
    path = kube.core(scene.namespace, "secrets", "internal-ca")
    if scene.api.find(path) is not None:
        scene.api.merge(path, {"data": data})
        return
    meta = {"name": "internal-ca", "namespace": scene.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    scene.api.create(kube.core(scene.namespace, "secrets"), secret)


def shown(quorum: HarnessQuorum) -> dict[str, dict[str, object]]:
    """What each process says of its certificate."""
    names = sorted(pod["metadata"]["name"] for pod in quorum.pods())
    return {each: quorum.fetch_from(each, "/v1/node")["tls"] for each in names}


def trusted(quorum: HarnessQuorum) -> list[set[str]]:
    """Subjects, by process."""
    return [{each["subject"] for each in tls["trusted"]} for tls in shown(quorum).values()]  # type: ignore[attr-defined]


def certificates(quorum: HarnessQuorum) -> dict[str, str]:
    """Fingerprints, by process."""
    return {name: tls["certificate"]["sha256"] for name, tls in shown(quorum).items()}  # type: ignore[index]


def blocked(quorum: HarnessQuorum) -> str:
    return str((quorum.condition("TlsBlocked") or {}).get("reason"))


def starts(quorum: HarnessQuorum) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: quorum.restarts(pod["metadata"]["name"]) for pod in quorum.pods()
    }


def test_an_issuer_is_late_answers_renews_fails_and_changes_its_authority_under_load(
    scene: Scene,
) -> None:
    first, second = (ModelledIssuer(each, time.time(), below_a_root=True) for each in "AB")
    trust(scene, first)
    allow(scene)
    manager = IssuingController(scene.api, scene.namespace, first)
    manager.install()
    manager.answer = "waits"
    operator, _ = scene.add_operator()
    operator.start()
    with manager:
        quorum = scene.apply(3, tls=_TLS)
        wait_for(
            "a late issuer is named",
            lambda: blocked(quorum) == "IssuerLate",
            timeout_s=MOVE_TIMEOUT_S + 90.0,
            seen=quorum.summary,
        )
        manager.answer = "issues"
        quorum.wait_ready(3, timeout_s=120)
        assert trusted(quorum) == [{"CN=A"}] * 3
        load, begun = scene.start_load(quorum), starts(quorum)

        def renewed(before: dict[str, str]) -> None:
            wait_for(
                "new certificates",
                lambda: not set(before.values()) & set(certificates(quorum).values()),
                timeout_s=MOVE_TIMEOUT_S + 150.0,
                seen=quorum.summary,
            )

        before = certificates(quorum)
        manager.renew()
        renewed(before)
        before = certificates(quorum)
        manager.issuer = second
        trust(scene, first, second)
        manager.renew()
        renewed(before)
        trust(scene, second)
        wait_for(
            "the first authority is forgotten",
            lambda: trusted(quorum) == [{"CN=B"}] * 3,
            timeout_s=MOVE_TIMEOUT_S + 150.0,
            seen=quorum.summary,
        )
        assert starts(quorum) == begun, "nobody restarts for it"
        scene.prove_nothing_lost(load)
