"""Checks whether the quorum matches its spec again. Pure: from the resource, a confirmed description and the other objects.

Settled means: the voters of the spec are live and confirmed, no condition reports a problem, and the plan has no step.
"""

from collections.abc import Iterable, Iterator

from support.envtest.kube_api import Json
from support.kind_env.quorum import Described

GOOD_WHEN_TRUE = frozenset({"Ready", "Formed", "QuorumConfirmed", "TlsReady", "Updated"})
"""Every other condition is a complaint when it is true."""
_OF_OTHERS = frozenset({"BackupCurrent"})
"""A condition about other objects than the quorum."""


def unsettled(
    resource: Json, described: Described | None, wanted: int, drifted: Iterable[str]
) -> list[str]:
    """The differences from the spec in words; empty if it is settled. `drifted`: changed objects of the operator."""
    return [
        *_of_voters(described, wanted),
        *_of_status(resource),
        *_of_members(resource, described),
        *drifted,
    ]


def _of_voters(described: Described | None, wanted: int) -> Iterator[str]:
    if described is None:
        yield "no majority confirms a leader"
    elif not described.healthy(wanted):
        voters = ", ".join(
            f"{each.id}{'' if each.fetching and each.caught_up else ' (not live)'}"
            for each in described.voters
        )
        yield f"voters {voters}{'' if described.settled else ' (a change is pending)'}, wanted are {wanted}"


def _of_status(resource: Json) -> Iterator[str]:
    status = resource.get("status") or {}
    generation = resource["metadata"]["generation"]
    if status.get("observedGeneration") != generation:
        yield f"the status is of generation {status.get('observedGeneration')}, not {generation}"
    if status.get("phase") != "Ready":
        yield f"phase {status.get('phase')}"
    plan = status.get("plan") or {}
    if plan.get("step") != "Nothing":
        blocked = f", blocked by {plan['blockedBy']}" if plan.get("blockedBy") else ""
        yield f"plan {plan.get('step')}: {plan.get('reason')}{blocked}"
    for condition in complaints(resource):
        message = f"{condition['type']}={condition['status']}"
        yield f"{message} ({condition['reason']}): {condition['message']}"


def complaints(resource: Json) -> list[Json]:
    """Conditions that are not as they should be."""
    conditions: list[Json] = (resource.get("status") or {}).get("conditions", [])
    return [
        each
        for each in conditions
        if each["status"] != ("True" if each["type"] in GOOD_WHEN_TRUE else "False")
        and (each["type"], each["reason"]) != ("TlsReady", "Disabled")
        and each["type"] not in _OF_OTHERS
    ]


def _of_members(resource: Json, described: Described | None) -> Iterator[str]:
    members = (resource.get("status") or {}).get("members", [])
    reported = {(each["id"], each.get("uuid")) for each in members if each.get("voter")}
    if described is not None and reported != described.keys:
        yield f"the status names voters {sorted(reported, key=str)}, the leader {sorted(described.keys)}"
