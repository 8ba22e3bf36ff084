"""Results of the backup Jobs that still exist in Kubernetes, and why one has no pod. Pure except for the reads."""

import asyncio
import json
from typing import Any

from quorum_operator.desired.names import LABEL_BACKUP, LABEL_QUORUM, Owner
from quorum_operator.kube import facts, paths
from quorum_operator.kube.creation_events import not_made
from quorum_operator.kube.finding import Reads
from quorum_operator.planner.backups import BackupRun

Object = dict[str, Any]

_JOB_NAME = "batch.kubernetes.io/job-name"
_ENDS = {"Complete": True, "Failed": False}


async def read_runs(
    api: Reads, owner: Owner, reported_until: float = 0.0
) -> tuple[tuple[BackupRun, ...], str]:
    """Read the runs of scheduled Jobs and of Jobs created manually from the CronJob. Also returns why a current Job
    gets no pod; "" if there is no such Job. `reported_until`: failures until then are known. Raises ApiError.
    """
    selected = f"{LABEL_BACKUP}=true,{LABEL_QUORUM}={owner.name}"
    jobs, pods = await asyncio.gather(
        api.find(paths.namespaced("jobs", owner.namespace), labels=selected),
        api.find(paths.namespaced("pods", owner.namespace), labels=selected),
    )
    suspect = [each for each in _without_pod(jobs, pods) if _ended_at(each) > reported_until]
    path = paths.namespaced("events", owner.namespace)
    events = await asyncio.gather(
        *(
            api.find(path, fields=f"involvedObject.uid={each['metadata']['uid']}")
            for each in suspect
        )
    )
    refused = {
        each["metadata"]["name"]: found.message
        for each, mine in zip(suspect, events, strict=True)
        if (found := not_made(mine)) is not None
    }
    runs = runs_of(jobs, pods, refused)
    ended = {each.name for each in runs}
    current = [f"Job/{name}: {why}" for name, why in refused.items() if name not in ended]
    return runs, "; ".join(current[:1])


def _without_pod(jobs: list[Object], pods: list[Object]) -> list[Object]:
    """Jobs without a pod that have not succeeded: the API server may refuse their pods."""
    there = {(each["metadata"].get("labels") or {}).get(_JOB_NAME) for each in pods}
    return [
        each
        for each in jobs
        if each["metadata"]["name"] not in there
        and (_end_of(each) or {}).get("type") != "Complete"
        and each["metadata"].get("uid")
    ]


def _ended_at(job: Object) -> float:
    ended = _end_of(job)
    return float("inf") if ended is None else _time_of(ended)


def _end_of(job: Object) -> Object | None:
    """The condition of a Job that has ended; else None."""
    conditions: list[Object] = (job.get("status") or {}).get("conditions") or []
    ends = [e for e in conditions if e.get("type") in _ENDS and e.get("status") == "True"]
    return ends[0] if ends else None


def _time_of(condition: Object) -> float:
    return facts.seconds(condition.get("lastTransitionTime")) or 0.0


def runs_of(
    jobs: list[Object], pods: list[Object], refused: dict[str, str] | None = None
) -> tuple[BackupRun, ...]:
    """Completed runs, oldest first. `refused`: why Jobs got no pod, by name."""
    outputs: dict[str, str] = {}
    for each in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
        job = (each["metadata"].get("labels") or {}).get(_JOB_NAME)
        message = _message(each)
        if job and message:
            outputs[job] = message
    found = []
    for each in jobs:
        name, ended = each["metadata"]["name"], _end_of(each)
        if ended is None:
            continue
        output = outputs.get(name) or _words(ended, (refused or {}).get(name, ""))
        found.append(BackupRun(name, _time_of(ended), _ENDS[ended["type"]], output))
    return tuple(sorted(found, key=lambda run: (run.ended_at, run.name)))


def _message(pod: Object) -> str:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated") or {}
        if ended.get("message"):
            return str(ended["message"])
    return ""


def _words(condition: Object, refused: str) -> str:
    """The result of a Job whose pods were deleted or never ran, from its condition."""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    text = "; ".join(filter(None, [f"{reason}: {message}".strip(": "), refused]))
    return json.dumps({"error": text}) if text else ""
