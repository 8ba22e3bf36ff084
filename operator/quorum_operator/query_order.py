"""The order in which pods are queried for a description of the quorum: the presumed leader first."""

from collections.abc import Iterable

from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.credible_identity import current_formation
from quorum_operator.planner.observed import Incarnation, Key

_ORDER = {"leader": 0, "follower": 1, "observer": 2}


def pods_to_query(incarnations: Iterable[Incarnation], leader: Key | None = None) -> list[str]:
    """Addresses of running pods: the `leader` first if it is known, then by their reported role."""
    running = [each for each in incarnations if each.pod is not None and each.pod.running]
    running.sort(
        key=lambda each: (
            leader is not None and each.key != leader,
            -each.formation,
            _ORDER.get(each.report.role if each.report is not None else "", 3),
            each.node_id,
            -each.number,
        )
    )
    return [each.pod.ip for each in running if each.pod is not None and each.pod.ip is not None]


def addresses_to_query(cluster: Cluster, incarnations: tuple[Incarnation, ...]) -> list[str]:
    """Addresses of members of the current formation that have answered, and of pods whose StatefulSets were deleted."""
    index = current_formation(incarnations)
    if index is None:
        formations = [each.index for each in cluster.identities]
        index = max([*formations, *(each.formation for each in incarnations)], default=0)
    answering = [
        each for each in incarnations if each.report is not None and each.formation == index
    ]
    return pods_to_query(answering) + [stray.ip for stray in cluster.strays]
