"""The order in which pods are asked for a description of the quorum: the presumed leader first."""

from collections.abc import Iterable

from quorum_operator.planner.observed import Incarnation, Key

_ORDER = {"leader": 0, "follower": 1, "observer": 2}


def asked_pods(incarnations: Iterable[Incarnation], leader: Key | None = None) -> list[str]:
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
