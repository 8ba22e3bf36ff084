"""Backup Jobs in the harness, which runs no pods of Jobs: created from the CronJob, and ended as their controller would."""

from support.envtest.quorum import ApiServerQuorum


def batch(quorum: ApiServerQuorum, plural: str, name: str) -> str:
    return f"/apis/batch/v1/namespaces/{quorum.namespace}/{plural}/{name}"


def end_backup(quorum: ApiServerQuorum, name: str, *, successful: bool) -> None:
    """A Job as `kubectl create job --from=cronjob/NAME-backup` makes it, with the status that its controller would set."""
    api, parent = quorum.api, f"{quorum.name}-backup"
    template = api.get(batch(quorum, "cronjobs", parent))["spec"]["jobTemplate"]
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": template["metadata"]["labels"]},
        "spec": {**template["spec"], "suspend": True},
    }
    api.create(batch(quorum, "jobs", name).rpartition("/")[0], body)
    at = api.get(batch(quorum, "jobs", name))["metadata"]["creationTimestamp"]
    kinds = ("SuccessCriteriaMet", "Complete") if successful else ("FailureTarget", "Failed")
    reason = "CompletionsReached" if successful else "BackoffLimitExceeded"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason}
        for kind in kinds
    ]
    status = {"startTime": at, "conditions": conditions}
    status |= {"completionTime": at, "succeeded": 1} if successful else {"failed": 1}
    api.merge(f"{batch(quorum, 'jobs', name)}/status", {"status": status})
