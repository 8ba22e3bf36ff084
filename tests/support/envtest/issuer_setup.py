"""What a quorum with `spec.tls.issuerRef` needs in its namespace: the operator's right to Certificates, and the authorities to trust."""

from base64 import b64encode

from support import chart
from support.envtest.environment import Env
from support.generated_certificates import Issued, pem
from support.kind_env import kube

_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces"
ISSUED = {
    "mode": "Managed",
    "issuerRef": {"name": "internal"},
    "trustedCAs": [{"secret": {"name": "internal-ca"}}],
}
"""spec.tls."""


def allow_certificates(env: Env) -> None:
    """What the chart grants with certManager.enabled (tests/unit/packaging/test_chart.py)."""
    space = env.namespace
    verbs = ["get", "list", "create", "patch", "delete"]
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


def trust(env: Env, *roots: Issued) -> None:
    """What spec.tls.trustedCAs names."""
    data = {"ca.crt": b64encode(pem(*(each.certificate for each in roots))).decode()}
    path = kube.core(env.namespace, "secrets", "internal-ca")
    if env.api.find(path) is not None:
        env.api.merge(path, {"data": data})
        return
    meta = {"name": "internal-ca", "namespace": env.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    env.api.create(kube.core(env.namespace, "secrets"), secret)
