"""Backup Jobs in the harness, which runs no pods of Jobs: created from the CronJob, and ended as their controller would."""

from support.cron_jobs import job_of
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube


def end_backup(quorum: ApiServerQuorum, name: str, *, successful: bool) -> None:
    """A Job as `kubectl create job --from=cronjob/NAME-backup` makes it, with the status that its controller would set."""
    api, parent = quorum.api, f"{quorum.name}-backup"
    jobs = kube.batch(quorum.namespace, "jobs")
    cron_job = api.get(kube.batch(quorum.namespace, "cronjobs", parent))
    api.create(jobs, job_of(cron_job, name, suspend=True))
    at = api.get(f"{jobs}/{name}")["metadata"]["creationTimestamp"]
    kinds = ("SuccessCriteriaMet", "Complete") if successful else ("FailureTarget", "Failed")
    reason = "CompletionsReached" if successful else "BackoffLimitExceeded"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason}
        for kind in kinds
    ]
    status = {"startTime": at, "conditions": conditions}
    status |= {"completionTime": at, "succeeded": 1} if successful else {"failed": 1}
    api.merge(f"{jobs}/{name}/status", {"status": status})
