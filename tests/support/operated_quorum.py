"""A quorum of real processes with the files that the operator writes: ConfigMap, arguments of the pods, Secrets of certificates and token.

Owns the translation to this machine: paths and ports, and `localhost`, which every member's certificate contains. Everything else is as the
operator's own code renders it for a new quorum with nothing in its spec.
"""

import time
from base64 import b64decode
from pathlib import Path

from cryptography import x509

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates import documents, holders
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issuing import Pair, issue, new_authority
from quorum_operator.certificates.pem import load_key
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import config, names, stateful_set
from quorum_operator.desired.formation_defaults import with_defaults
from quorum_operator.desired.names import Owner
from quorum_operator.planner.formation_defaults import FormationDefault
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import TlsStage, first_stage
from support.generated_certificates import Issued
from support.local_quorum import LocalNode
from support.ports import free_ports
from support.tls_quorum import NAME, NAMESPACE, write_at_once
from support.unauthorized_clients import BROKER_ID, IdentifiedQuorum

OWNER = Owner(NAME, NAMESPACE, "uid-1", "operators")


class OperatedQuorum(IdentifiedQuorum):
    """`overrides`: the only properties that the operator does not write."""

    def __init__(self, root: Path, nodes: int = 3, **overrides: str) -> None:
        self._authority = new_authority(OWNER, 1, time.time())
        super().__init__(root, nodes)
        self._identity = Identity(
            1,
            self.cluster_id,
            self.founder_id,
            self.founder_uuid,
            nodes,
            formed=False,
            network_policy=True,
            defaults=frozenset(FormationDefault),
            tls=first_stage(None) is TlsStage.CLOSED,
        )
        for node in self.nodes.values():
            self._configure(node)
            node.overrides = dict(overrides)
        for role, node_id in (("reader", None), ("broker", BROKER_ID)):
            self._write_secret(role, _holder(role, node_id), self._authority)
        foreign = new_authority(OWNER, 1, time.time())
        self._write_secret("foreign", _holder("member", 1), foreign)

    def place_of(self, node_id: int) -> tuple[str, tuple[str, ...]]:
        """See `LocalQuorum`."""
        return "localhost", ()

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `LocalQuorum`; `_configure` replaces all of them."""
        self.issue_for("member", node.id)
        return {}

    def issue_for(self, role: str, node_id: int | None, issuer: Issued | None = None) -> Issued:
        """See `TlsQuorum`; the certificate is one that the operator issues."""
        assert issuer is None, "the operator issues"
        who = role if node_id is None else str(node_id)
        made = self._write_secret(who, _holder(role, node_id), self._authority)
        certificate = x509.load_pem_x509_certificate(made.certificate.pem.encode())
        return Issued(certificate, load_key(made.key_pem))

    def _write_secret(self, who: str, holder: Holder, authority: Pair) -> Pair:
        """The files of a holder's Secret; every holder trusts the authority of this quorum."""
        made = issue(OWNER, holder, authority, time.time())
        trusted = (self._authority.certificate,)
        folder = self.folder(who)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in documents.leaf_secret(OWNER, holder, made, trusted)["data"].items():
            write_at_once(folder / name, b64decode(text))
        return made

    def _configure(self, node: LocalNode) -> None:
        spec = with_defaults(MetadataQuorumSpec.model_validate({}), self._identity)
        founder = node.id == self.founder_id
        member = stateful_set.Member(node.id, 1, self._identity, founder=founder)
        secured = self._identity.tls_stage is not TlsStage.PLAIN
        files = config.build(OWNER, spec.config or {}, secured=secured)["data"]
        (container,) = stateful_set.build_template(OWNER, spec, member)["spec"]["containers"]
        here = self._places(node)
        path = node.root / "node.properties"
        path.write_text(_translated(files[names.CONFIG_FILE], here))
        option, _, *arguments = container["args"]
        assert option == "--config"
        node.arguments = tuple(_translated(each, here) for each in arguments)

    def _places(self, node: LocalNode) -> dict[str, str]:
        """What the operator writes for a pod, and what it is here."""
        (health_port,) = free_ports(1)
        pod = OWNER.host(OWNER.member(node.id, 1))
        return {
            OWNER.bootstrap_servers: self._bootstrap,
            f"{pod}:{names.CONTROLLER_PORT}": f"localhost:{node.port}",
            f"{pod}:{names.SECURE_ADMIN_PORT}": f"localhost:{node.admin_port}",
            f"0.0.0.0:{names.CONTROLLER_PORT}": f"127.0.0.1:{node.port}",
            f"0.0.0.0:{names.SECURE_ADMIN_PORT}": f"127.0.0.1:{node.admin_port}",
            f"0.0.0.0:{names.ADMIN_PORT}": f"127.0.0.1:{health_port}",
            names.TOKEN_FILE: str(self.root / "token"),
            names.DATA_PATH: str(node.data_dir),
            names.LATCH_PATH: str(node.root),
            names.TLS_PATH: str(self.folder(str(node.id))),
            "/dev/termination-log": str(node.root / "termination.json"),
        }


def _holder(role: str, node_id: int | None) -> Holder:
    if node_id is None:
        return holders.person(role, Role(role))
    if role == "broker":
        return holders.broker(f"broker-{node_id}", node_id)
    return holders.member(OWNER, node_id, 1)


def _translated(text: str, places: dict[str, str]) -> str:
    for there, here in places.items():
        text = text.replace(there, here)
    for remaining in (".svc", "0.0.0.0", "/etc/"):
        assert remaining not in text, f"no place here for {text}"
    return text
