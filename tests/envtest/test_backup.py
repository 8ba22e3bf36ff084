"""Backups and restores on a real API server: the CronJob, how its Jobs ended, and a quorum that begins with an older claim."""

from typing import Any

import pytest

from support.envtest.backup_jobs import end_backup
from support.envtest.environment import SharedQuorum
from support.envtest.kube_api import ApiError
from support.envtest.quorum import CREATE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = pytest.mark.envtest

_LOOK_S = 60.0
_STORE = {"bucket": "bucket", "prefix": "all", "credentialsSecretName": "credentials"}
_BACKUP = {"schedule": "30 2 * * *", "timeZone": "Europe/Berlin", "claimName": "backups"}


def condition(quorum: ApiServerQuorum, kind: str) -> dict[str, Any]:
    found = quorum.status().get("conditions") or []
    return next((each for each in found if each["type"] == kind), {})


def wait_reason(quorum: ApiServerQuorum, reason: str) -> None:
    wait_for(
        f"BackupCurrent has the reason {reason}",
        lambda: condition(quorum, "BackupCurrent").get("reason") == reason,
        timeout_s=_LOOK_S,
        seen=quorum.summary,
    )


@pytest.mark.requirement("OP-10")
def test_backup_cron_job_is_accepted_and_restored_and_its_job_gets_its_settings(
    shared_quorum: SharedQuorum,
) -> None:
    quorum, api = shared_quorum.quorum, shared_quorum.env.api
    quorum.patch({"backup": _BACKUP})
    wait_reason(quorum, "FirstPending")
    path = kube.batch(quorum.namespace, "cronjobs", "q-backup")
    made = api.get(path)
    assert made["spec"]["timeZone"] == "Europe/Berlin"
    api.merge(path, {"spec": {"schedule": "0 0 1 1 *"}})
    wait_for(
        "the schedule is put back",
        lambda: api.get(path)["spec"]["schedule"] == _BACKUP["schedule"],
        timeout_s=_LOOK_S,
    )
    end_backup(quorum, "q-backup-now", successful=True)
    wait_reason(quorum, "BackupRecent")
    assert quorum.status()["backup"]["lastSuccessAt"]
    # Posted beside the status, in no order.
    wait_for(
        "the event",
        lambda: "BackupWritten" in {each["reason"] for each in shared_quorum.env.events("q")},
        timeout_s=_LOOK_S,
    )
    quorum.patch({"backup": None})
    wait_reason(quorum, "Disabled")
    assert api.find(path) is None


@pytest.mark.requirement("OP-10")
def test_object_store_cron_job_is_accepted_and_a_missing_secret_is_reported(
    shared_quorum: SharedQuorum,
) -> None:
    quorum, api = shared_quorum.quorum, shared_quorum.env.api
    store = {**_STORE, "endpoint": "https://store.example:9000", "pathStyle": True}
    quorum.patch({"backup": {"schedule": "@daily", "objectStore": store}})
    wait_reason(quorum, "Refused")
    assert "Secret/credentials" in condition(quorum, "BackupCurrent")["message"]
    (container,) = api.get(kube.batch(quorum.namespace, "cronjobs", "q-backup"))["spec"][
        "jobTemplate"
    ]["spec"]["template"]["spec"]["containers"]
    assert "s3://bucket/all/q" in container["args"]
    space = f"/api/v1/namespaces/{quorum.namespace}/secrets"
    data = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "a-secret-value"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "credentials"}}
    api.create(space, {**body, "stringData": data})
    wait_reason(quorum, "BackupRecent")  # the Job of the test before is still there
    assert "a-secret-value" not in str(quorum.status())
    quorum.patch({"backup": None})
    wait_reason(quorum, "Disabled")
    api.delete(f"{space}/credentials")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"backup": {**_BACKUP, "schedule": "nightly"}}, "must have the five fields of cron"),
        ({"backup": {**_BACKUP, "keep": 0}}, "spec.backup.keep"),
        (
            {"backup": {**_BACKUP, "objectStore": _STORE}},
            "spec.backup needs one target: set either",
        ),
        ({"backup": {"schedule": "@daily"}}, "spec.backup needs one target: set either"),
        (
            {"backup": {"schedule": "@daily", "objectStore": {"bucket": "bucket"}}},
            "credentialsSecretName",
        ),
        (
            {"backup": {"schedule": "@daily", "objectStore": {**_STORE, "bucket": "Not_A_Bucket"}}},
            "spec.backup.objectStore.bucket",
        ),
        (
            {"backup": {"schedule": "@daily", "objectStore": {**_STORE, "prefix": "a/../b"}}},
            "objectStore.prefix is relative to the bucket",
        ),
        (
            {
                "backup": {
                    "schedule": "@daily",
                    "objectStore": {**_STORE, "endpoint": "https://user:pass@store"},
                }
            },
            "without credentials",
        ),
        (
            {
                "backup": {
                    "schedule": "@daily",
                    "objectStore": {**_STORE, "endpoint": "https://store:65536"},
                }
            },
            "with a port up to 65535 if any",
        ),
        (
            {"backup": {"schedule": "@daily", "objectStore": {**_STORE, "caSecretName": "ca"}}},
            "is only for an endpoint with https",
        ),
        (
            {"clusterId": "c", "restoreFrom": {"claimName": "b", "objectStore": _STORE}},
            "spec.restoreFrom needs one source: set either",
        ),
        ({"clusterId": "c", "restoreFrom": {}}, "spec.restoreFrom needs one source: set either"),
        (
            {"clusterId": "c", "restoreFrom": {"objectStore": _STORE, "path": "demo"}},
            "write the folder or the backup into spec.restoreFrom.objectStore.prefix",
        ),
        ({"restoreFrom": {"claimName": "b"}}, "spec.restoreFrom needs spec.clusterId"),
        (
            {"clusterId": "c", "restoreFrom": {"claimName": "b", "path": "a/../../b"}},
            "is relative to the volume, without '..'",
        ),
        (
            {"clusterId": "c", "restoreFrom": {"claimName": "b", "clusterId": "c"}},
            "is only for a restore under a new cluster id",
        ),
        (
            {
                "clusterId": "c",
                "restoreFrom": {"claimName": "b"},
                "earlierClaims": {"policy": "Adopt", "clusterId": "c"},
            },
            "set only one of them",
        ),
    ],
)
def test_invalid_backup_settings_are_rejected_with_a_remedy(
    shared_quorum: SharedQuorum, spec: dict[str, object], words: str
) -> None:
    with pytest.raises(ApiError) as refused:
        shared_quorum.env.apply(1, name="wrong", **spec)
    assert words in str(refused.value)


@pytest.mark.requirement("OP-10")
def test_restore_into_an_existing_quorum_is_rejected(shared_quorum: SharedQuorum) -> None:
    with pytest.raises(ApiError) as refused:
        shared_quorum.quorum.patch({"restoreFrom": {"claimName": "b"}, "clusterId": "c"})
    assert "create a new MetadataQuorum" in str(refused.value)


@pytest.mark.requirement("OP-10")
@pytest.mark.long
def test_new_quorum_restores_from_the_backup_claim_of_the_previous_quorum(
    shared_quorum: SharedQuorum,
) -> None:
    """The last of this file: the resource is another one after it."""
    env, quorum = shared_quorum.env, shared_quorum.quorum
    load = env.start_load(quorum)
    load.wait_for_acknowledgement(timeout_s=60)
    verdict = env.prove_nothing_lost(load)
    assert verdict.acknowledged > 0
    quorum.wait_ready(3)
    cluster_id = quorum.status()["clusterId"]
    voter = quorum.voter(leader=True)
    pod = quorum.pod_of(voter.id, voter.uuid)
    claim, before = f"data-{pod}", quorum.fetch_from(pod, "/v1/configs")["entries"]
    assert before
    env.api.delete(quorum.path)
    quorum.wait_gone(timeout_s=_LOOK_S)
    wait_for("its sets are gone", lambda: not quorum.incarnations(), timeout_s=_LOOK_S)
    wait_for("its pods are gone", lambda: not quorum.pods(), timeout_s=_LOOK_S)
    env.quorums.remove(quorum)

    again = env.apply(
        3,
        clusterId=cluster_id,
        earlierClaims={"policy": "Leave"},
        restoreFrom={"claimName": claim},
    )
    found = again.wait_ready(3, timeout_s=CREATE_TIMEOUT_S)
    assert again.status()["clusterId"] == cluster_id
    voter = again.voter(leader=True, described=found)
    pod = again.pod_of(voter.id, voter.uuid)
    assert again.fetch_from(pod, "/v1/configs")["entries"] == before
    founder = next(each for each in again.pods() if each["metadata"]["name"].startswith("q-1-"))
    assert again.restarts(founder["metadata"]["name"]) == 0, (
        "a pod was restarted to remove the option"
    )
    claims = {each["metadata"]["name"] for each in again.claims()}
    assert claim in claims, "the claim of the backup was deleted"
