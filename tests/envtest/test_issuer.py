"""cert-manager issues (`spec.tls.issuerRef`), with the real operator, a real API server and real nodes, while clients write.

cert-manager itself is replaced: by its definition from the documented fields, and a controller that signs each request.
"""

import time
from base64 import b64encode

import pytest

from support import chart
from support.envtest.environment import Env
from support.envtest.issuing_controller import IssuingController
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for
from support.modelled_issuer import ModelledIssuer

pytestmark = [pytest.mark.envtest, pytest.mark.long, pytest.mark.timeout(600)]

_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces"
_TLS = {
    "mode": "Managed",
    "issuerRef": {"name": "internal"},
    "trustedCAs": [{"secret": {"name": "internal-ca"}}],
}


def allow(env: Env) -> None:
    """What the chart grants with certManager.enabled (tests/unit/packaging/test_chart.py)."""
    space = env.namespace
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
    env.api.apply(f"{_ROLES}/{space}/roles/issuer", role)
    env.api.apply(f"{_ROLES}/{space}/rolebindings/issuer", binding)


def trust(env: Env, *issuers: ModelledIssuer) -> None:
    """What spec.tls.trustedCAs names."""
    data = {"ca.crt": b64encode(b"".join(each.trust_pem for each in issuers)).decode()}
    path = kube.core(env.namespace, "secrets", "internal-ca")
    if env.api.find(path) is not None:
        env.api.merge(path, {"data": data})
        return
    meta = {"name": "internal-ca", "namespace": env.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    env.api.create(kube.core(env.namespace, "secrets"), secret)


def shown(quorum: ApiServerQuorum) -> dict[str, dict[str, object]]:
    """The certificate that each process reports."""
    names = sorted(pod["metadata"]["name"] for pod in quorum.pods())
    return {each: quorum.fetch_from(each, "/v1/node")["tls"] for each in names}


def trusted(quorum: ApiServerQuorum) -> list[set[str]]:
    """Subjects, by process."""
    return [{each["subject"] for each in tls["trusted"]} for tls in shown(quorum).values()]  # type: ignore[attr-defined]


def certificates(quorum: ApiServerQuorum) -> dict[str, str]:
    """Fingerprints, by process."""
    return {name: tls["certificate"]["sha256"] for name, tls in shown(quorum).items()}  # type: ignore[index]


def blocked(quorum: ApiServerQuorum) -> str:
    return str((quorum.condition("TlsBlocked") or {}).get("reason"))


def starts(quorum: ApiServerQuorum) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: quorum.restarts(pod["metadata"]["name"]) for pod in quorum.pods()
    }


@pytest.mark.requirement("OP-11")
def test_cert_manager_issuer_is_delayed_issues_renews_fails_and_changes_its_authority_under_load(
    env: Env,
) -> None:
    first, second = (ModelledIssuer(each, time.time(), below_a_root=True) for each in "AB")
    trust(env, first)
    allow(env)
    manager = IssuingController(env.api, env.namespace, first)
    manager.install()
    manager.answer = "waits"
    operator, _ = env.add_operator()
    operator.start()
    with manager:
        quorum = env.apply(3, tls=_TLS)
        wait_for(
            "a late issuer is named",
            lambda: blocked(quorum) == "IssuerLate",
            timeout_s=MOVE_TIMEOUT_S + 90.0,
            seen=quorum.summary,
        )
        manager.answer = "issues"
        quorum.wait_ready(3, timeout_s=120)
        assert trusted(quorum) == [{"CN=A"}] * 3
        load, begun = env.start_load(quorum), starts(quorum)

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
        trust(env, first, second)
        manager.renew()
        renewed(before)
        trust(env, second)
        wait_for(
            "the first authority is forgotten",
            lambda: trusted(quorum) == [{"CN=B"}] * 3,
            timeout_s=MOVE_TIMEOUT_S + 150.0,
            seen=quorum.summary,
        )
        assert starts(quorum) == begun, "a pod was restarted"
        env.prove_nothing_lost(load)
