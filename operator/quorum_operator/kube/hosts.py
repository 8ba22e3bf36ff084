"""The Nodes of members whose pods are not ready: whether they exist and are ready, and whether the whole zone is
down.

Nothing is read in the steady state. An unreadable Node counts as ready, so its member is not reported as unreachable.
"""

import asyncio
from typing import Any

from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.finding import MemberId, Reads
from quorum_operator.kube.volumes import HOSTNAME
from quorum_operator.planner.observed import HostFacts, Incarnation

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
_ROLE_TAINT = "node-role.kubernetes.io/"


async def read_hosts(
    api: Reads, members: tuple[Incarnation, ...], copies: Reads | None = None
) -> dict[MemberId, HostFacts]:
    """Hosts of members that should run and are not ready. A host that is ready in the cache is not read again: a
    stale cache delays detection, and no step is based on a ready host alone.
    """
    host_by_member = {
        (each.node_id, each.number): host
        for each in members
        if each.pod is None or each.pod.deleting or not each.pod.ready
        if (host := _host_of(each)) is not None
    }
    hosts = sorted(set(host_by_member.values()))

    async def read(host: str) -> HostFacts | None:
        seen = await _read(copies, host) if copies is not None else None
        return seen if seen is not None and seen.ready else await _read(api, host)

    found = dict(zip(hosts, await asyncio.gather(*map(read, hosts)), strict=True))
    return {
        member_id: seen
        for member_id, host in host_by_member.items()
        if (seen := found[host]) is not None
    }


def _host_of(each: Incarnation) -> str | None:
    """The host of its pod, else the only host that can mount its volume."""
    if each.pod is not None and each.pod.host is not None:
        return each.pod.host
    hosts = each.volume.hosts if each.volume is not None else ()
    return hosts[0] if len(hosts) == 1 else None


async def _read(api: Reads, host: str) -> HostFacts | None:
    try:
        found = await api.find(paths.NODES, fields=f"metadata.name={host}")
        found = found or await api.find(paths.NODES, labels=f"{HOSTNAME}={host}")
        if not found:
            return HostFacts(host, exists=False, ready=False)
        zone = (found[0]["metadata"].get("labels") or {}).get(ZONE, "")
        ready = is_ready(found[0])
        away = bool(zone) and not ready and await _is_away(api, zone)
        return HostFacts(host, exists=True, ready=ready, zone=zone, zone_is_away=away)
    except ApiError:
        return None


async def _is_away(api: Reads, zone: str) -> bool:
    """Whether all Nodes of the zone are down; False for a zone with a single Node."""
    nodes = await api.find(paths.NODES, labels=f"{ZONE}={zone}")
    return len(nodes) > 1 and not any(map(is_ready, nodes))


async def all_have_zones(api: Reads) -> bool:
    """Whether all Nodes have a zone, except those of the control plane; False if they can't be read."""
    try:
        nodes = await api.find(paths.NODES)
    except ApiError:
        return False
    workers = [each for each in nodes if not _is_control_plane(each)]
    zones = [(each["metadata"].get("labels") or {}).get(ZONE) for each in workers]
    return bool(zones) and all(zones)


def _is_control_plane(node: Object) -> bool:
    """Whether a taint reserves the Node for a role. Other taints may be temporary, such as not-ready."""
    taints = (node.get("spec") or {}).get("taints") or []
    return any(each.get("key", "").startswith(_ROLE_TAINT) for each in taints)


def is_ready(node: Object) -> bool:
    """Whether the Node is ready; a Node without a status yet counts as ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready")
