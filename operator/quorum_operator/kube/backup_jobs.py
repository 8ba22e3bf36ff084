"""Results of the backup Jobs that still exist in Kubernetes. Pure except for two reads."""

import asyncio
import json
from typing import Any

from quorum_operator.desired.names import LABEL_BACKUP, LABEL_QUORUM, Owner
from quorum_operator.kube import facts, paths
from quorum_operator.kube.finding import Reads
from quorum_operator.planner.backups import BackupRun

Object = dict[str, Any]

_JOB_NAME = "batch.kubernetes.io/job-name"
_ENDS = {"Complete": True, "Failed": False}


async def read_runs(api: Reads, owner: Owner) -> tuple[BackupRun, ...]:
    """Read the runs of scheduled Jobs and of Jobs created manually from the CronJob. Raises ApiError."""
    selected = f"{LABEL_BACKUP}=true,{LABEL_QUORUM}={owner.name}"
    jobs, pods = await asyncio.gather(
        api.find(paths.namespaced("jobs", owner.namespace), labels=selected),
        api.find(paths.namespaced("pods", owner.namespace), labels=selected),
    )
    return runs_of(jobs, pods)


def runs_of(jobs: list[Object], pods: list[Object]) -> tuple[BackupRun, ...]:
    """Completed runs, oldest first."""
    outputs: dict[str, str] = {}
    for each in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
        job = (each["metadata"].get("labels") or {}).get(_JOB_NAME)
        message = _message(each)
        if job and message:
            outputs[job] = message
    found = []
    for each in jobs:
        name = each["metadata"]["name"]
        for condition in (each.get("status") or {}).get("conditions") or ():
            good = _ENDS.get(condition.get("type"))
            if good is None or condition.get("status") != "True":
                continue
            ended = facts.seconds(condition.get("lastTransitionTime"))
            output = outputs.get(name) or _words(condition)
            found.append(BackupRun(name, ended or 0.0, good, output))
    return tuple(sorted(found, key=lambda run: (run.ended_at, run.name)))


def _message(pod: Object) -> str:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated") or {}
        if ended.get("message"):
            return str(ended["message"])
    return ""


def _words(condition: Object) -> str:
    """The result of a Job whose pods were deleted or never ran, from its condition."""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    text = f"{reason}: {message}".strip(": ")
    return json.dumps({"error": text}) if text else ""
