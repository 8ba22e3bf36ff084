"""A quorum with certificates in one process: its objects kept in a dictionary, and nodes that load what their Secrets hold.

The certificates are real. A node takes over the bundle and the pair of its Secret when it is asked (`SecuredNodes.report`), as a real
one does after the kubelet has brought them; a `stuck` one goes on with what it has.
"""

import time

from quorum_operator.certificates import checks, documents, holders, pem
from quorum_operator.certificates.pem import Read
from quorum_operator.door import Door
from quorum_operator.kube import paths
from quorum_operator.planner.certificates_seen import LoadedCertificates
from quorum_operator.planner.observed import NodeReport
from support.kept_objects import OWNER, SPACE, KeptObjects, Object, SoundNodes


def secret_path(name: str) -> str:
    return paths.namespaced("secrets", SPACE, name)


TRUST = paths.namespaced("configmaps", SPACE, "demo-trust")


def leaf_path(node_id: int) -> str:
    return secret_path(f"demo-{node_id}-1-tls")


def leaf_in(secret: Object) -> Read:
    """The certificate of a holder's Secret."""
    return pem.read(checks.decoded(secret["data"])[checks.CERTIFICATE])


def bundle_in(secret: Object) -> tuple[Read, ...]:
    """What a holder's Secret says is to be trusted."""
    return pem.read_all(checks.decoded(secret["data"])[checks.BUNDLE])


class SecuredNodes(SoundNodes):
    """`loaded`: by node id, the certificate and the bundle of a process. `doors`: the ways in that were used."""

    def __init__(self, api: KeptObjects, members: int = 3, now: float | None = None) -> None:
        super().__init__(members)
        self._api = api
        self.now = time.time() if now is None else now
        self.stuck: set[int] = set()
        self.loaded: dict[int, tuple[Read, tuple[Read, ...]]] = {}
        self.doors: list[Door] = []

    def through(self, door: Door) -> "SecuredNodes":
        self.doors.append(door)
        return self

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        said = await super().report(ip, node_id)
        if said is None or not self.load(node_id):
            return None
        certificate, bundle = self.loaded[node_id]
        signer = next(each for each in bundle if pem.signed_by(certificate, each))
        told = LoadedCertificates(
            certificate.fingerprint,
            signer.fingerprint,
            frozenset(each.fingerprint for each in bundle),
        )
        return NodeReport(
            said.uuid, said.cluster_id, said.role, True, True, "ok", certificates=told
        )

    def load(self, node_id: int) -> bool:
        """Whether a process of it runs; one that can use what its Secret holds takes it over."""
        secret = self._api.objects.get(leaf_path(node_id))
        if secret is not None and node_id not in self.stuck:
            holder = holders.member(OWNER, node_id, 1)
            bundle = documents.bundle_of(OWNER, holder, secret)
            data = checks.decoded(secret["data"])
            pair = checks.check_leaf("", data, OWNER, holder, bundle, self.now)
            if isinstance(pair, Read):
                self.loaded[node_id] = (pair, bundle)
            elif node_id in self.loaded:
                mine = self.loaded[node_id][0]
                if any(pem.signed_by(mine, each) for each in bundle):
                    self.loaded[node_id] = (mine, bundle)
        return node_id in self.loaded

    def mistrusting(self) -> list[str]:
        """Pairs of processes of which one does not trust the other."""
        return [
            f"{one} does not trust {other}"
            for one, (_, bundle) in self.loaded.items()
            for other, (certificate, _) in self.loaded.items()
            if not any(pem.signed_by(certificate, each) for each in bundle)
        ]
