"""The Nodes of members whose pods are not ready: whether they are there and ready, and whether their whole zone is away.

In the steady state nothing is read. What can't be read is held to be well: nobody is called unreachable for that.
"""

import asyncio
from typing import Any

from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.finding import Place, Reads
from quorum_operator.kube.volumes import HOSTNAME
from quorum_operator.planner.observed import HostFacts, Incarnation

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"


async def read_hosts(
    api: Reads, members: tuple[Incarnation, ...], copies: Reads | None = None
) -> dict[Place, HostFacts]:
    """Of members that should run and are not ready. A host that `copies` call ready is not read again: a copy that is out
    of date hides a fault for a moment, and nothing is done because of a host that is well."""
    asked = {
        (each.node_id, each.number): host
        for each in members
        if each.pod is None or each.pod.deleting or not each.pod.ready
        if (host := _host_of(each)) is not None
    }
    hosts = sorted(set(asked.values()))

    async def read(host: str) -> HostFacts | None:
        seen = await _read(copies, host) if copies is not None else None
        return seen if seen is not None and seen.ready else await _read(api, host)

    found = dict(zip(hosts, await asyncio.gather(*map(read, hosts)), strict=True))
    return {place: seen for place, host in asked.items() if (seen := found[host]) is not None}


def _host_of(each: Incarnation) -> str | None:
    """Where its pod is, else the only host that can mount its volume."""
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
        ready = _is_ready(found[0])
        away = bool(zone) and not ready and await _is_away(api, zone)
        return HostFacts(host, exists=True, ready=ready, zone=zone, zone_is_away=away)
    except ApiError:
        return None


async def _is_away(api: Reads, zone: str) -> bool:
    """Of a zone with a single Node nobody can tell."""
    nodes = await api.find(paths.NODES, labels=f"{ZONE}={zone}")
    return len(nodes) > 1 and not any(map(_is_ready, nodes))


def _is_ready(node: Object) -> bool:
    """Without a word from its kubelet yet it is taken for ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready")
