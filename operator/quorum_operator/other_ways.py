"""Whom else to ask for a description when no pod that was found has given a confirmed one.

Owns the order: pods that were found and said nothing, the addresses of the last description that was confirmed, and what
the quorum's Services have behind them. Only a description of the very cluster is believed, since an address may be
somebody else's by now; it is asked without the admin token, and nothing is changed at such an address.
"""

from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.finding import Reads
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.observed import Incarnation
from quorum_operator.quorum_client import Described, QuorumClient, Seen, describe_newest

PERIOD_S = 10.0
"""Between two questions: each may wait for addresses at which nobody is."""
_NO_ADDRESS = {"", "None"}


class OtherWays:
    """Of one quorum. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._addresses: tuple[str, ...] = ()
        self._asked_at = float("-inf")
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
        """`described`, or what one of these ways tells instead of nothing: asked for at this moment, and nothing that is kept."""
        asked = tuple(each.pod.ip for each in incarnations if each.pod is not None and each.pod.ip)
        if described.view is not None:
            self._addresses, self._works = asked, False
            return described
        identity = max(cluster.identities, key=lambda each: each.index, default=None)
        cluster_id = identity.cluster_id if identity is not None else seen.cluster_id
        if cluster_id is None or (identity is not None and not identity.formed):
            return described
        if not self._works and now - self._asked_at < PERIOD_S:
            return described
        self._asked_at = now
        silent = [
            each.pod.ip
            for each in incarnations
            if each.pod is not None and each.pod.ip and each.report is None
        ]
        answering = set(asked) - set(silent)
        others = [*silent, *self._addresses, *await _services(reads, owner)]
        ways = [each for each in dict.fromkeys(others) if each not in answering]
        told = await describe_newest(nodes, ways, seen) if ways else described
        self._works = told.view is not None and told.view.cluster_id == cluster_id
        return told if self._works else described


async def _services(reads: Reads, owner: Owner) -> list[str]:
    """The Service of the admin API, by its address; its pods are those that the labels select, whatever their names."""
    try:
        path = paths.namespaced("services", owner.namespace, owner.admin_service)
        found = await reads.get(path)
    except ApiError:
        return []
    address = str(found["spec"].get("clusterIP") or "") if found is not None else ""
    return [address] if address not in _NO_ADDRESS else []
