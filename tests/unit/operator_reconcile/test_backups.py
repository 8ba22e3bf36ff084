"""The CronJob of a quorum in the real reconcile, and what its Jobs leave in the status, the conditions and the
events.
"""

import json
from typing import Any

import pytest

from quorum_operator import remembered
from quorum_operator.kube.errors import Forbidden
from support.in_memory_kube_api import (
    NAME,
    OWNER,
    SPACE,
    InMemoryKubeApi,
    reconcile,
    running_quorum,
    time_text,
)

CRON_JOB = f"/apis/batch/v1/namespaces/{SPACE}/cronjobs/demo-backup"
LABELS = {"metadataquorum.dev/backup": "true", "metadataquorum.dev/quorum": NAME}
BACKUP = {"schedule": "30 2 * * *", "claimName": "backups"}


@pytest.fixture(autouse=True)
def _reconciles_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "OBJECTS_PERIOD_S", -1.0)


@pytest.fixture
def api() -> InMemoryKubeApi:
    made = running_quorum(3)
    made.change_spec(backup=BACKUP)
    return made


def ended(
    api: InMemoryKubeApi,
    name: str,
    good: bool,
    seconds_ago: float,
    reported: dict[str, object] | None,
) -> None:
    """A Job, and the pod of its last attempt."""
    kind, meta = "Complete" if good else "Failed", {"name": name, "namespace": SPACE}
    condition = {"type": kind, "status": "True", "lastTransitionTime": time_text(seconds_ago)}
    condition |= {"reason": "BackoffLimitExceeded", "message": "it has reached the limit"}
    place = f"/apis/batch/v1/namespaces/{SPACE}/jobs/{name}"
    api.objects[place] = {
        "metadata": {**meta, "labels": LABELS},
        "status": {"conditions": [condition]},
    }
    if reported is not None:
        state = {"terminated": {"exitCode": 0 if good else 1, "message": json.dumps(reported)}}
        labels = {**LABELS, "batch.kubernetes.io/job-name": name}
        api.objects[f"/api/v1/namespaces/{SPACE}/pods/{name}-x"] = {
            "metadata": {**meta, "labels": labels, "creationTimestamp": time_text(seconds_ago)},
            "status": {"containerStatuses": [{"state": state}]},
        }


def condition_of(api: InMemoryKubeApi) -> tuple[str, str, str]:
    found = api.condition("BackupCurrent")
    return found["status"], found["reason"], found["message"]


def reasons(api: InMemoryKubeApi) -> list[str]:
    return [each["reason"] for each in api.events if each["reason"].startswith("Backup")]


@pytest.mark.requirement("OP-10")
def test_quorum_without_backups_creates_and_reads_no_backup_objects() -> None:
    api, requested = running_quorum(3), list[str]()
    api.refuse = lambda verb, path: requested.append(path)
    reconcile(api)
    assert not [path for path in requested if "/batch/" in path]
    assert condition_of(api)[:2] == ("False", "Disabled")
    assert "backup" not in api.status


@pytest.mark.requirement("OP-10")
def test_cron_job_is_created_repaired_and_removed(api: InMemoryKubeApi) -> None:
    reconcile(api)
    made = api.objects[CRON_JOB]
    assert made["metadata"]["ownerReferences"] == [OWNER.reference()]
    assert made["spec"]["schedule"] == "30 2 * * *"
    assert condition_of(api)[:2] == ("False", "FirstPending")
    made["spec"]["concurrencyPolicy"] = "Allow"
    reconcile(api)
    assert api.objects[CRON_JOB]["spec"]["concurrencyPolicy"] == "Forbid"
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "other"}
    for owners in ([], [other], [OWNER.reference(), other]):
        api.objects[CRON_JOB]["metadata"]["ownerReferences"] = owners
        reconcile(api)
        assert api.objects[CRON_JOB]["metadata"]["ownerReferences"] == [OWNER.reference()]
    api.change_spec(backup={**BACKUP, "schedule": "@daily", "keep": 3})
    reconcile(api)
    assert api.objects[CRON_JOB]["spec"]["schedule"] == "@daily"
    api.change_spec(paused=True, backup=None)
    reconcile(api)
    assert CRON_JOB in api.objects, "an object was changed while the quorum is paused"
    assert "when spec.paused is false" in condition_of(api)[2]
    api.change_spec(paused=False)
    reconcile(api)
    assert CRON_JOB not in api.objects
    assert condition_of(api)[:2] == ("False", "Disabled")
    assert api.status.get("backup") is None


@pytest.mark.requirement("OP-10")
def test_successful_and_failed_backups_are_reported(api: InMemoryKubeApi) -> None:
    summary: dict[str, object] = {"name": "backup-1", "endOffset": 47, "bytes": 1234}
    ended(api, "demo-backup-1", True, 7200, summary)
    reconcile(api)
    status, reason, message = condition_of(api)
    assert (status, reason) == ("True", "BackupRecent")
    assert "backup-1" in message
    assert (api.status["backup"]["endOffset"], api.status["backup"]["sizeBytes"]) == (47, 1234)
    ended(api, "demo-backup-2", False, 3600, {"error": "no leader answered within 60 s"})
    ended(api, "demo-backup-3", False, 1800, None)
    reconcile(api)
    status, reason, message = condition_of(api)
    assert (status, reason) == ("False", "LastRunFailed")
    assert "BackoffLimitExceeded: it has reached the limit" in message, "a Job without a pod"
    assert api.status["backup"]["failures"] == 2
    # Kubernetes deletes old Jobs; the time of the last successful backup is kept.
    for place in [each for each in api.objects if "/jobs/" in each or each.endswith("-x")]:
        del api.objects[place]
    reconcile(api)
    assert api.status["backup"]["name"] == "backup-1"
    ended(api, "demo-backup-4", True, 60, {"name": "backup-4", "endOffset": 50, "bytes": 1})
    reconcile(api)
    assert condition_of(api)[:2] == ("True", "BackupRecent")
    assert reasons(api) == ["BackupWritten", "BackupFailed", "BackupWritten"]


def test_complete_backup_counts_although_older_ones_cannot_be_deleted(
    api: InMemoryKubeApi,
) -> None:
    ended(api, "demo-backup-1", True, 3 * 86_400, {"name": "backup-1"})
    error = "backup-2 is complete, but older backups can't be deleted"
    ended(api, "demo-backup-2", False, 3600, {"name": "backup-2", "endOffset": 50, "error": error})
    reconcile(api)
    status, reason, message = condition_of(api)
    assert (status, reason) == ("False", "LastRunFailed")
    assert "the last successful backup is backup-2" in message
    assert error in message
    assert api.status["backup"]["failures"] == 1
    ended(api, "demo-backup-3", True, 60, {"name": "backup-3"})
    reconcile(api)
    assert condition_of(api)[:2] == ("True", "BackupRecent")
    assert "failures" not in api.status["backup"] or not api.status["backup"]["failures"]


def test_backup_whose_output_is_gone_is_reported_without_it(api: InMemoryKubeApi) -> None:
    """Its pod was deleted before the operator has read the output."""
    ended(api, "demo-backup-1", True, 3600, None)
    reconcile(api)
    status, reason, message = condition_of(api)
    assert (status, reason) == ("True", "BackupRecent")
    assert "backup is of 20" in message
    (event,) = (each for each in api.events if each["reason"] == "BackupWritten")
    assert event["message"] == "a backup, of whose output nothing is left"
    ended(api, "demo-backup-2", True, 60, {"name": "backup-2", "endOffset": 50, "bytes": 1})
    reconcile(api)
    assert "backup is backup-2 of 20" in condition_of(api)[2]
    *_, event = (each for each in api.events if each["reason"] == "BackupWritten")
    assert event["message"] == "backup backup-2, up to offset 50, 1 bytes"


NO_REQUESTS = (
    'Error creating: pods "demo-backup-1-x" is forbidden: failed quota: strict: must specify '
    "requests.cpu for: backup"
)


def without_pod(api: InMemoryKubeApi, name: str, ended_seconds_ago: float | None) -> None:
    """A Job whose pods a ResourceQuota refuses, and the event about it."""
    if ended_seconds_ago is not None:
        ended(api, name, False, ended_seconds_ago, None)
    place = f"/apis/batch/v1/namespaces/{SPACE}/jobs/{name}"
    job = api.objects.setdefault(place, {"metadata": {"name": name, "labels": LABELS}})
    job["metadata"]["uid"] = f"uid-{name}"
    api.objects[f"/api/v1/namespaces/{SPACE}/events/{name}"] = {
        "metadata": {"name": name, "creationTimestamp": time_text(30)},
        "involvedObject": {"kind": "Job", "name": name, "uid": f"uid-{name}"},
        "reason": "FailedCreate",
        "message": NO_REQUESTS,
        "lastTimestamp": time_text(10),
    }


def test_backup_whose_pod_is_refused_is_reported_with_the_reason(api: InMemoryKubeApi) -> None:
    without_pod(api, "demo-backup-1", None)
    reconcile(api)
    status, reason, message = condition_of(api)
    assert (status, reason) == ("False", "Refused")
    assert "Job/demo-backup-1: pods" in message
    assert "must specify requests.cpu" in message
    assert "spec.backup.resources" in message, "the message has no advice"
    without_pod(api, "demo-backup-1", 5)
    reconcile(api)
    assert condition_of(api)[1] == "LastRunFailed"
    assert "must specify requests.cpu" in api.status["backup"]["lastFailure"]
    asked: list[str] = []
    api.refuse = lambda verb, path: asked.append(path)
    reconcile(api)
    assert not [each for each in asked if each.endswith("/events")], "the events are read again"


def test_suspended_cron_job_is_reported_and_left_so(api: InMemoryKubeApi) -> None:
    ended(api, "demo-backup-1", True, 60, {"name": "backup-1"})
    reconcile(api)
    assert condition_of(api)[:2] == ("True", "BackupRecent")
    api.objects[CRON_JOB]["spec"]["suspend"] = True
    reconcile(api)
    status, reason, message = condition_of(api)
    assert (status, reason) == ("False", "Suspended")
    assert "suspended" in message
    assert "backup-1" in message
    assert api.objects[CRON_JOB]["spec"]["suspend"] is True
    api.objects[CRON_JOB]["spec"]["suspend"] = False
    reconcile(api)
    assert condition_of(api)[:2] == ("True", "BackupRecent")


@pytest.mark.requirement("OP-10")
def test_outdated_backup_is_reported(api: InMemoryKubeApi) -> None:
    ended(api, "demo-backup-1", True, 7200, {"name": "backup-1"})
    api.change_spec(backup={**BACKUP, "overdueAfterSeconds": 3600})
    reconcile(api)
    status, reason, message = condition_of(api)
    assert (status, reason) == ("False", "Overdue")
    assert "which exceeds spec.backup.overdueAfterSeconds" in message


@pytest.mark.requirement("OP-10")
def test_rejected_or_foreign_objects_are_reported_and_other_steps_continue(
    api: InMemoryKubeApi,
) -> None:
    foreign: dict[str, Any] = {
        "kind": "CronJob",
        "metadata": {"name": "demo-backup", "namespace": SPACE, "uid": "foreign"},
        "spec": {"schedule": "@daily"},
    }
    api.objects[CRON_JOB] = foreign
    reconcile(api)
    assert api.objects[CRON_JOB] == foreign
    assert condition_of(api)[1] == "Refused"
    assert "not owned by this resource" in condition_of(api)[2]
    del api.objects[CRON_JOB]

    def forbidden(verb: str, path: str) -> None:
        if "/batch/" in path:
            raise Forbidden(403, "Forbidden", "cronjobs.batch is forbidden")

    api.refuse = forbidden
    service = f"/api/v1/namespaces/{SPACE}/services/demo-admin"
    del api.objects[service]
    reconcile(api)
    assert "cronjobs.batch is forbidden" in condition_of(api)[2]
    assert service in api.objects


@pytest.mark.requirement("OP-10")
def test_missing_object_store_secret_is_reported(api: InMemoryKubeApi) -> None:
    store = {
        "bucket": "bucket",
        "endpoint": "https://store.example",
        "credentialsSecretName": "credentials",
        "caSecretName": "authority",
    }
    api.change_spec(backup={"schedule": "@daily", "objectStore": store})
    path = f"/api/v1/namespaces/{SPACE}/secrets/{{}}".format
    reconcile(api)
    assert CRON_JOB in api.objects, "it runs as soon as they exist"
    status, reason, message = condition_of(api)
    assert (status, reason) == ("False", "Refused")
    assert message.startswith(
        "Secret/credentials (spec.backup.objectStore.credentialsSecretName) does not exist: create it with the "
        "keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )
    data = {"AWS_ACCESS_KEY_ID": "c29tZWJvZHk=", "AWS_SECRET_ACCESS_KEY": "c2VjcmV0LXZhbHVl"}
    kept = {"metadata": {"name": "credentials", "namespace": SPACE}, "data": dict(data)}
    del kept["data"]["AWS_SECRET_ACCESS_KEY"]  # type: ignore[attr-defined]
    api.objects[path("credentials")] = kept
    reconcile(api)
    assert "has no AWS_SECRET_ACCESS_KEY" in condition_of(api)[2]
    kept["data"] = data
    reconcile(api)
    assert (
        "Secret/authority (spec.backup.objectStore.caSecretName) does not exist"
        in condition_of(api)[2]
    )
    api.objects[path("authority")] = {
        "metadata": {"name": "authority", "namespace": SPACE},
        "data": {"ca.crt": "eA=="},
    }
    reconcile(api)
    assert condition_of(api)[:2] == ("False", "FirstPending")
    for value in data.values():
        assert value not in json.dumps([api.objects[CRON_JOB], api.status, api.events])
