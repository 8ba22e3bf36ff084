"""The PersistentVolumes of a quorum, and whether the hosts of local volumes exist. Unreadable ones count as existing."""

import asyncio
from typing import Any

from quorum_operator.kube import facts, paths
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.facts import Tie
from quorum_operator.kube.finding import Reads
from quorum_operator.planner.observed import VolumeFacts

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the Node selected by the scheduler for provisioning."""


async def read_volumes(
    api: Reads, claims: list[Object], copies: Reads | None = None
) -> dict[str, VolumeFacts]:
    """Volumes by name. A volume that is healthy in the cache is not read again: a stale cache delays detection, and
    no step is based on a healthy volume. All others are read from the API server.
    """
    if copies is None:
        return await _read(api, claims)
    found = await _read(copies, claims)
    doubtful = [each for each in claims if not _is_sound(found.get(_volume_of(each)))]
    doubted = {_volume_of(each) for each in doubtful}
    live = await _read(api, doubtful)
    return {**{name: each for name, each in found.items() if name not in doubted}, **live}


def _volume_of(claim: Object) -> str:
    return claim["spec"].get("volumeName") or ""


def _is_sound(volume: VolumeFacts | None) -> bool:
    return volume is not None and volume.phase == "Bound" and volume.hosts_exist


async def _read(api: Reads, claims: list[Object]) -> dict[str, VolumeFacts]:
    selected: dict[str, str | None] = {}
    for claim in claims:
        notes = claim["metadata"].get("annotations") or {}
        if name := _volume_of(claim):
            selected[name] = notes.get(SELECTED_NODE)
    found = await asyncio.gather(*(api.get(paths.volume(name)) for name in sorted(selected)))
    volumes = {each["metadata"]["name"]: each for each in found if each is not None}
    ties = {name: facts.ties_of(each, selected[name]) for name, each in volumes.items()}
    queries = sorted(
        {(tie, selected[name]) for name, mine in ties.items() for tie in mine}, key=str
    )
    exist = await asyncio.gather(*(_exists(api, tie, node) for tie, node in queries))
    there = {each for each, exists in zip(queries, exist, strict=True) if exists}
    return {
        name: facts.volume_facts(
            volume, ties[name], any((tie, selected[name]) in there for tie in ties[name])
        )
        for name, volume in volumes.items()
    }


async def _exists(api: Reads, tie: Tie, selected: str | None) -> bool:
    """Whether the host of a volume exists: by name, by label, or by the Node that it was provisioned for."""
    try:
        for name in sorted({tie.value, selected or tie.value}):
            if await api.find(paths.NODES, fields=f"metadata.name={name}"):
                return True
        label = HOSTNAME if tie.key == facts.NODE_NAME else tie.key
        if await _labelled(api, f"{label}={tie.value}", label, tie.value):
            return True
        # An id is not a node name. If no node has the label any more, its driver has removed it, which
        # proves nothing about the host.
        unknown = tie.by_id and selected is None and not await _labelled(api, label, label)
    except ApiError:
        return True
    return unknown


async def _labelled(api: Reads, selector: str, key: str, value: str | None = None) -> bool:
    found = await api.find(paths.NODES, labels=selector)
    labels = [each["metadata"].get("labels") or {} for each in found]
    return any(key in each and value in (None, each[key]) for each in labels)
