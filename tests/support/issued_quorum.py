"""A quorum with `spec.tls.issuerRef` in one process: its objects are kept in a dictionary, and an issuer is modelled."""

from typing import Any

from quorum_operator.kube import paths
from support.in_memory_kube_api import SPACE, running_quorum
from support.modelled_issuer import ModelledIssuer, ready
from support.secured_quorum import Env, secret_path

MEMBERS = (1, 2, 3)
REQUESTS = paths.namespaced("certificates", SPACE)
TRUST = paths.namespaced("configmaps", SPACE, "issuer-ca")
ISSUED_TLS: dict[str, Any] = {
    "mode": "Managed",
    "issuerRef": {"name": "internal"},
    "trustedCAs": [{"configMap": {"name": "issuer-ca"}}],
}


class Issuing:
    """A quorum and its issuer. `works`: it answers."""

    def __init__(self, *, below_a_root: bool = False, begun: bool = True, **env: Any) -> None:
        self.env = Env(running_quorum(3, tls=True), **env)
        self.api, self.nodes = self.env.api, self.env.nodes
        self.issuer = ModelledIssuer("Issuer", self.nodes.now, below_a_root=below_a_root)
        self.works = True
        self.trust(self.issuer)
        if begun:
            self.api.change_spec(tls=ISSUED_TLS)

    def trust(self, *issuers: ModelledIssuer) -> None:
        data = {"ca.crt": b"".join(each.trust_pem for each in issuers).decode()}
        meta = {"name": "issuer-ca", "namespace": SPACE, "uid": "u", "labels": {}}
        self.api.objects[TRUST] = {"metadata": {**meta, "resourceVersion": "1"}, "data": data}

    def requests(self) -> dict[str, Any]:
        there = self.api.objects.items()
        return {path.rpartition("/")[2]: each for path, each in there if path.startswith(REQUESTS)}

    def fulfil(self, *, again: bool = False) -> None:
        """The work of cert-manager: once, or a renewal of all."""
        for name, each in self.requests().items():
            if not self.works or (secret_path(name) in self.api.objects and not again):
                continue
            data = self.issuer.secret_data(each, self.nodes.now)
            meta = {"name": name, "namespace": SPACE, "uid": f"s-{name}", "labels": {}}
            self.api.objects[secret_path(name)] = {"metadata": meta, "data": data}
            each["status"] = ready(self.nodes.now)

    def looks(self, times: int) -> None:
        operator = self.env.operator()
        for _ in range(times):
            self.env.looks(1, operator)
            self.fulfil()

    def settle(self) -> None:
        self.looks(12)
        assert self.env.ready()["reason"] == "CertificatesIssued", self.env.ready()

    def signers(self) -> set[str]:
        return {self.nodes.loaded[each][0].issuer for each in MEMBERS}

    def trusted(self) -> set[str]:
        each, *others = ({one.subject for one in self.nodes.loaded[n][1]} for n in MEMBERS)
        assert all(other == each for other in others)
        return each

    def blocked(self) -> tuple[str, str]:
        found = self.api.condition("TlsBlocked")
        return found["reason"], found["message"]
