"""A quorum with certificates in one process: its objects are kept in a dictionary, and its nodes load the content of their Secrets.

The certificates are real. A node takes over the bundle and the key pair of its Secret when it is queried (`SecuredNodes.report`), as a
real one does after the kubelet has updated the files; a `stuck` one keeps what it has.
"""

import asyncio
import ssl
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from quorum_operator.certificate_keeper import CertificateKeeper
from quorum_operator.certificates import checks, documents, holders, pem
from quorum_operator.certificates.pem import Read
from quorum_operator.desired import names
from quorum_operator.kube import paths
from quorum_operator.metrics import Metrics
from quorum_operator.planner.certificates_seen import LoadedCertificates
from quorum_operator.planner.observed import NodeReport
from quorum_operator.pod_client import PodClient
from quorum_operator.reconcile import Reconciler
from support.in_memory_kube_api import (
    NAME,
    OWNER,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    Object,
    running_quorum,
)

MOST_LOOKS = 80


def secret_path(name: str) -> str:
    return paths.namespaced("secrets", SPACE, name)


TRUST = paths.namespaced("configmaps", SPACE, "demo-trust")


def leaf_path(node_id: int) -> str:
    return secret_path(f"demo-{node_id}-1-tls")


def leaf_in(secret: Object) -> Read:
    """The certificate of a holder's Secret."""
    return pem.read(checks.decoded(secret["data"])[checks.CERTIFICATE])


def bundle_in(secret: Object) -> tuple[Read, ...]:
    """The authorities to trust, in a holder's Secret."""
    return pem.read_all(checks.decoded(secret["data"])[checks.BUNDLE])


class SecuredNodes(HealthyNodes):
    """`loaded`: by node id, the certificate and the bundle of a process. `pod_clients`: the contexts that were used."""

    def __init__(self, api: InMemoryKubeApi, members: int = 3, now: float | None = None) -> None:
        super().__init__(members)
        self._api = api
        self.now = time.time() if now is None else now
        self.stuck: set[int] = set()
        self.loaded: dict[int, tuple[Read, tuple[Read, ...]]] = {}
        self.chains: dict[int, tuple[Read, ...]] = {}
        """By node id: the certificate that it presents, and its issuers."""
        self.pod_clients: list[PodClient] = []

    def through(self, pod_client: PodClient) -> "SecuredNodes":
        self.pod_clients.append(pod_client)
        return self

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        found_report = await super().report(ip, node_id)
        if found_report is None or not self.load(node_id):
            return None
        certificate, bundle = self.loaded[node_id]
        signer = pem.anchor_of(self.chains[node_id], bundle)
        assert signer is not None
        reported = LoadedCertificates(
            certificate.fingerprint,
            signer.fingerprint,
            frozenset(each.fingerprint for each in bundle),
        )
        return NodeReport(
            found_report.uuid,
            found_report.cluster_id,
            found_report.role,
            True,
            True,
            "ok",
            certificates=reported,
        )

    def load(self, node_id: int) -> bool:
        """Whether a process of it runs; a process that can use its Secret's content takes it over."""
        secret = self._api.objects.get(leaf_path(node_id))
        if secret is not None and node_id not in self.stuck:
            holder = holders.member(OWNER, node_id, 1)
            bundle = documents.bundle_of(OWNER, holder, secret)
            data = checks.decoded(secret["data"])
            pair = checks.check_leaf("", data, OWNER, holder, bundle, self.now)
            if isinstance(pair, Read):
                self.loaded[node_id] = (pair, bundle)
                self.chains[node_id] = pem.read_all(data[checks.CERTIFICATE])
            elif node_id in self.loaded:
                mine = self.loaded[node_id][0]
                if pem.anchor_of(self.chains[node_id], bundle) is not None:
                    self.loaded[node_id] = (mine, bundle)
        return node_id in self.loaded

    def trust_failures(self) -> list[str]:
        """Pairs of processes of which one does not trust the other."""
        return [
            f"{one} does not trust {other}"
            for one, (_, bundle) in self.loaded.items()
            for other in self.loaded
            if pem.anchor_of(self.chains[other], bundle) is None
        ]


@dataclass
class Env:
    """A quorum that was formed with certificates. `http`: one client for each context that the operator made."""

    api: InMemoryKubeApi = field(default_factory=lambda: running_quorum(3, tls=True))
    nodes: Any = None
    http: list[httpx.AsyncClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = self.nodes or SecuredNodes(self.api)

    def operator(self, kept: InMemoryKubeApi | None = None) -> Reconciler:
        def make_http(context: ssl.SSLContext) -> httpx.AsyncClient:
            made = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(500)))
            self.http.append(made)
            return made

        unchecked: Any = self.api
        copies: Any = kept
        keeper = CertificateKeeper(unchecked, lambda: float(self.nodes.now), make_http)
        clock = lambda: float(self.nodes.now)  # noqa: E731
        return Reconciler(
            unchecked, self.nodes, Metrics(), copies, clock=clock, certificates=keeper
        )

    def looks(self, times: int, operator: Reconciler | None = None) -> None:
        made = operator or self.operator()

        async def run() -> None:
            for _ in range(times):
                await made.reconcile(SPACE, NAME)
                assert self.nodes.trust_failures() == []

        asyncio.run(run())

    def settle(self) -> None:
        """Reconcile until nothing is written any more."""
        made = self.operator()
        for _ in range(MOST_LOOKS):
            before = len(self.api.writes)
            self.looks(1, made)
            if len(self.api.writes) == before and self.ready()["reason"] == "CertificatesIssued":
                return
        raise AssertionError(self.ready())

    def ready(self) -> dict[str, Any]:
        return self.api.condition("TlsReady")

    def authority_of(self, node_id: int) -> int | None:
        """The generation that has signed what a process presents."""
        certificate, bundle = self.nodes.loaded[node_id]
        assert any(each.common_name in certificate.issuer for each in bundle)
        return int(certificate.issuer.partition("CA ")[2].partition(",")[0])

    def ask_for(self, generation: int) -> None:
        self.annotate(names.ANNOTATION_ROTATE, str(generation))

    def annotate(self, name: str, text: str) -> None:
        self.api.resource["metadata"].setdefault("annotations", {})[name] = text
