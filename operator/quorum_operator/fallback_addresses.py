"""Fallbacks for a description of the quorum if no found pod has returned a confirmed one.

Owns the order: pods that did not answer, the addresses of the last confirmed description, and the endpoints of the
quorum's Services. Only a description of the same cluster is accepted, because an address may belong to another pod by
now. Such addresses are queried without the admin token, and nothing is changed through them.
"""

from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.finding import Reads
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.observed import Incarnation
from quorum_operator.quorum_client import Described, QuorumClient, Seen, describe_newest

PERIOD_S = 10.0
"""Interval of fallback queries, because each may wait for addresses without a server."""
_NO_ADDRESS = {"", "None"}


class FallbackAddresses:
    """Fallbacks for one quorum. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._addresses: tuple[str, ...] = ()
        self._queried_at = float("-inf")
        self._works = False

    async def describe(
        self,
        nodes: QuorumClient,
        reads: Reads,
        owner: Owner,
        cluster: Cluster,
        incarnations: tuple[Incarnation, ...],
        described: Described,
        seen: Seen,
        now: float,
    ) -> Described:
        """`described`, or a confirmed description from a fallback, requested now and not cached."""
        addresses = tuple(
            each.pod.ip for each in incarnations if each.pod is not None and each.pod.ip
        )
        if described.view is not None:
            self._addresses, self._works = addresses, False
            return described
        identity = max(cluster.identities, key=lambda each: each.index, default=None)
        cluster_id = identity.cluster_id if identity is not None else seen.cluster_id
        if cluster_id is None or (identity is not None and not identity.formed):
            return described
        if not self._works and now - self._queried_at < PERIOD_S:
            return described
        self._queried_at = now
        silent = [
            each.pod.ip
            for each in incarnations
            if each.pod is not None and each.pod.ip and each.report is None
        ]
        answering = set(addresses) - set(silent)
        others = [*silent, *self._addresses, *await _services(reads, owner)]
        ways = [each for each in dict.fromkeys(others) if each not in answering]
        found = await describe_newest(nodes, ways, seen) if ways else described
        self._works = found.view is not None and found.view.cluster_id == cluster_id
        return found if self._works else described


async def _services(reads: Reads, owner: Owner) -> list[str]:
    """The address of the admin API's Service; its endpoints are selected by label, independent of pod names."""
    try:
        path = paths.namespaced("services", owner.namespace, owner.admin_service)
        found = await reads.get(path)
    except ApiError:
        return []
    address = str(found["spec"].get("clusterIP") or "") if found is not None else ""
    return [address] if address not in _NO_ADDRESS else []
