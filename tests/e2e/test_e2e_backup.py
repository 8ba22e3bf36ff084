"""The whole quorum is deleted; stock brokers go on with what is restored: from a backup of the operator's CronJob, from a claim of the
older quorum, or from a directory that `quorum-pipeline restore` wrote.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cron_jobs import job_of
from support.java_clients import PartitionState
from support.kind_env import kube
from support.kind_env.backups import (
    BackupTarget,
    claim_target,
    object_store_target,
    restored_directory,
)
from support.kind_env.environment import CREATE_TIMEOUT_S, KindEnv
from support.kind_env.kafka import KafkaBrokers, identities
from support.kind_env.testbed import Disks, run
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

_NEVER = "0 0 1 1 *"
"""A schedule that is not due while the test runs."""
_JOB_TIMEOUT_S = 180.0


@pytest.fixture(params=["claim", "object store"])
def target(env: KindEnv, request: pytest.FixtureRequest) -> Iterator[BackupTarget]:
    """Where the backups are kept."""
    if request.param == "claim":
        yield claim_target(env)
        return
    with object_store_target(env) as made:
        yield made


def back_up(env: KindEnv, name: str) -> None:
    """As `kubectl create job --from=cronjob/q-backup` does; until the status of the resource shows it."""
    api, quorum = env.cluster.api, env.the_quorum
    cron_job = kube.batch(env.namespace, "cronjobs", "q-backup")
    wait_for("the CronJob", lambda: api.find(cron_job) is not None, timeout_s=60)
    api.create(kube.batch(env.namespace, "jobs"), job_of(api.get(cron_job), name))
    wait_for(
        "the Job to end well",
        lambda: bool(
            api.get(kube.batch(env.namespace, "jobs", name)).get("status", {}).get("succeeded")
        ),
        timeout_s=_JOB_TIMEOUT_S,
        seen=lambda: api.get(kube.batch(env.namespace, "jobs", name)).get("status"),
    )
    quorum.wait_condition("BackupCurrent", timeout_s=60)


def remove_members(env: KindEnv) -> None:
    """Delete the resource and its members; their claims are kept."""
    quorum = env.the_quorum
    env.cluster.api.delete(quorum.path)
    quorum.wait_gone(timeout_s=120)
    wait_for("its sets to be gone", lambda: not quorum.stateful_sets(), timeout_s=60)


def destroy(env: KindEnv) -> None:
    """Delete the resource, its members, and all their claims."""
    remove_members(env)
    remove_claims(env)


def remove_claims(env: KindEnv) -> None:
    api, quorum = env.cluster.api, env.the_quorum
    for name in [each["metadata"]["name"] for each in quorum.claims()]:
        api.delete(kube.core(env.namespace, "persistentvolumeclaims", name))
    wait_for("its claims to be gone", lambda: not quorum.claims(), timeout_s=60)


def test_stock_brokers_continue_on_a_quorum_restored_from_a_backup(
    env: KindEnv, target: BackupTarget
) -> None:
    backup = {"schedule": _NEVER, **target.backup}
    tls = identities()
    quorum = env.create(3, backup=backup, tls=tls)
    cluster_id = quorum.status()["clusterId"]
    with KafkaBrokers(env.cluster, quorum, env.folder / "kafka") as brokers:
        before = written(brokers)
        back_up(env, "backup-now")
        assert quorum.status()["backup"]["endOffset"] > 0
        destroy(env)
        restored(env, cluster_id, restoreFrom=target.restore_from, backup=backup, tls=tls)
        prove_continued(brokers, before)
        back_up(env, "backup-again")


@pytest.mark.parametrize("source", ["claim of an older quorum", "directory of a pipeline restore"])
def test_stock_brokers_continue_on_a_quorum_restored_from_a_replica(
    env: KindEnv, source: str
) -> None:
    tls = identities()
    quorum = env.create(3, tls=tls)
    cluster_id = quorum.status()["clusterId"]
    with KafkaBrokers(env.cluster, quorum, env.folder / "kafka") as brokers:
        before = written(brokers)
        leader = env.voter(leader=True)
        claim = f"data-{quorum.pod_of(leader.id, leader.uuid)}"
        remove_members(env)
        if source == "claim of an older quorum":
            restore: dict[str, object] = {
                "restoreFrom": {"claimName": claim},
                "earlierClaims": {"policy": "Leave"},
            }
        else:
            restore = {"restoreFrom": restored_directory(env, claim)}
            remove_claims(env)
        env.cluster.provide_disks(2)
        restored(env, cluster_id, tls=tls, **restore)
        prove_continued(brokers, before)


def written(brokers: KafkaBrokers) -> dict[int, PartitionState]:
    """Messages in a new topic; returns its partitions."""
    brokers.wait_ready()
    brokers.make_user()
    clients = brokers.clients
    clients("create t 6 3")
    clients.start_load("t", 200)
    clients.wait_for_load("t", 500)
    clients.stop_load("t")
    return clients.partitions("t")


def restored(env: KindEnv, cluster_id: str, **spec: object) -> None:
    """Apply the resource with the source of its restore; until three voters serve."""
    again = env.apply(replicas=3, clusterId=cluster_id, **spec)
    again.wait_healthy(3, timeout_s=CREATE_TIMEOUT_S)
    again.wait_phase("Ready", timeout_s=120)
    assert again.status()["clusterId"] == cluster_id
    founder = next(each for each in again.status()["members"] if each["id"] == 1)
    pod = env.cluster.api.get(kube.core(env.namespace, "pods", founder["pod"]))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


def prove_continued(brokers: KafkaBrokers, before: dict[int, PartitionState]) -> None:
    """All replicas are in sync again where they were; new topics can be created and lose nothing."""
    # Certificates of the deleted authority are worth nothing; users and their rights are in the backup.
    brokers.restart()
    brokers.wait_ready()
    clients = brokers.clients
    wait_for("all replicas in sync", lambda: clients.in_sync("t"), timeout_s=180)
    after = clients.partitions("t")
    assert {number: each.replicas for number, each in after.items()} == {
        number: each.replicas for number, each in before.items()
    }
    clients("create u 3 3")
    clients.start_load("u", 100)
    clients.wait_for_load("u", 300)
    clients.prove_nothing_lost("u", "readers-of-u")


def test_backups_are_made_on_schedule_and_old_ones_are_removed(env: KindEnv) -> None:
    """`quorum-backup verify` reads each file of the newest one again."""
    target = claim_target(env)
    keep = 2
    quorum = env.create(1, backup={"schedule": "* * * * *", "keep": keep, **target.backup})
    names: set[str] = set()

    def made() -> bool:
        jobs = env.cluster.api.list(kube.batch(env.namespace, "jobs"))
        names.update(
            each["metadata"]["name"] for each in jobs if each.get("status", {}).get("succeeded")
        )
        return len(names) > keep

    wait_for("three scheduled backups", made, timeout_s=300, seen=lambda: sorted(names))
    env.cluster.api.merge(quorum.path, {"spec": {"backup": {"schedule": _NEVER}}})

    def idle() -> bool:
        jobs = env.cluster.api.list(kube.batch(env.namespace, "jobs"))
        schedule = env.cluster.api.get(kube.batch(env.namespace, "cronjobs", "q-backup"))["spec"][
            "schedule"
        ]
        return schedule == _NEVER and not any(each["status"].get("active") for each in jobs)

    wait_for("no Job to run", idle, timeout_s=120)
    disks = Disks(env.cluster.name)
    folder = disks.mount_point(env.cluster.volumes.disk_of_claim(env.namespace, "backups")) / "q"
    kept = sorted(each for each in folder.iterdir() if each.name.startswith("backup-"))
    assert len(kept) == keep, kept
    run([Path(sys.executable).with_name("quorum-backup"), "verify", kept[-1]], timeout_s=60)


def test_restore_with_another_cluster_id_is_rejected_with_a_remedy(
    env: KindEnv, target: BackupTarget
) -> None:
    api = env.cluster.api
    quorum = env.create(1, backup={"schedule": _NEVER, **target.backup})
    cluster_id = quorum.status()["clusterId"]
    back_up(env, "backup-now")
    destroy(env)
    again = env.apply(replicas=1, clusterId="another", restoreFrom=target.restore_from)

    def told() -> bool:
        words = f"backups of cluster {cluster_id}, and none of cluster another"
        degraded = again.condition("Degraded")
        blocked = (again.status().get("plan") or {}).get("blockedBy") or ""
        return degraded is not None and words in degraded["message"] and words in blocked

    wait_for("the refusal to be told", told, timeout_s=CREATE_TIMEOUT_S, seen=again.summary)
    api.merge(again.path, {"spec": {"restoreFrom": {"clusterId": cluster_id}}})
    again.wait_healthy(1, timeout_s=CREATE_TIMEOUT_S)
    assert again.status()["clusterId"] == "another"
