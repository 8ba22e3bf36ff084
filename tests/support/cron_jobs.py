"""Jobs of a CronJob, created as `kubectl create job --from=cronjob/NAME` does."""

from typing import Any


def job_of(cron_job: dict[str, Any], name: str, **spec: object) -> dict[str, Any]:
    """The Job, with `spec` in addition to the template's."""
    template = cron_job["spec"]["jobTemplate"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": template["metadata"]["labels"]},
        "spec": {**template["spec"], **spec},
    }
