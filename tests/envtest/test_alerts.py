"""The chart's alerts in a real Prometheus that scrapes a real operator and real members: each fires when its cause occurs.

Thresholds and expressions are the chart's. Only the time for which an expression has to hold is short, and the time after which
a reconcile counts as stuck.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml

from support import chart
from support.envtest import certificate_issuer
from support.envtest.backup_jobs import end_backup
from support.envtest.environment import Env
from support.envtest.http_proxy import Call, RecordingProxy
from support.envtest.issuer_setup import ISSUED, allow_certificates, trust
from support.envtest.issuing_controller import IssuingController
from support.envtest.prometheus import Prometheus
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.quorum import Described
from support.kind_env.waiting import wait_for
from support.modelled_issuer import ModelledIssuer
from support.ports import free_ports
from support.yaml_text import read_yaml

pytestmark = [pytest.mark.envtest, pytest.mark.long]

_RULES = chart.CHART / "monitoring" / "alerts.yaml"
_FOR = "1s"
_FIRING_S = 60.0
_LOST, _FULL, _ONE, _REFUSED, _WRONG = "lost", "full", "one", "refused", "wrong"
_ISSUED, _BEHIND = "issued", "behind"
_STUCK = "in_progress_start_time_seconds > 300"
"""End of the expression for a stuck reconcile. Here 5 seconds have to do."""
_SLOW_S = 4.0
_ENTRIES = 10_000
_APPENDS = 80
_MANY_BYTES = 1 << 30
CAUSED_HERE = {
    "MetadataQuorumMemberFailed": _LOST,
    "MetadataQuorumWithoutTolerance": _LOST,
    "MetadataQuorumLost": _LOST,
    "MetadataQuorumWithoutLeader": _LOST,
    "MetadataQuorumUpdateFailed": _FULL,
    "MetadataQuorumElections": _FULL,
    "MetadataQuorumBackupNotCurrent": _FULL,
    "MetadataQuorumDiskFull": _FULL,
    "MetadataQuorumDiskFilling": _FULL,
    "MetadataQuorumTlsBlocked": _ONE,
    "MetadataQuorumPlanStuck": _ONE,
    "MetadataQuorumPaused": _ONE,
    "MetadataQuorumMembersUnreachable": _ONE,
    "MetadataQuorumRefused": _REFUSED,
    "MetadataQuorumNeedsDecision": _WRONG,
    "MetadataQuorumReconcileFailing": "",
    "MetadataQuorumOperatorDown": "",
    "MetadataQuorumCertificatesNotRenewed": _ISSUED,
    "MetadataQuorumVoterLags": _BEHIND,
    "MetadataQuorumApplyLag": _BEHIND,
    "MetadataQuorumOperatorStuck": "",
}
"""Alert → the quorum that it names; empty for alerts of the operator."""
_NOT_IN_PEACE = {"MetadataQuorumDiskFilling"}
"""A prediction from the first seconds of a disk says nothing."""
_ELECTIONS = 14
_DAY_S = 86_400
_FAILURES = 14


class Alerts:
    """What fires in this Prometheus, which scrapes the members of `quorums`."""

    def __init__(self, prometheus: Prometheus, *quorums: ApiServerQuorum) -> None:
        self._prometheus, self._quorums = prometheus, quorums
        self.find_members()

    def find_members(self) -> None:
        """Pods that were created since are scraped, too."""
        self._prometheus.scrape(*self._quorums)

    def scraped(self, quorum: ApiServerQuorum) -> set[str]:
        """The pods of a quorum whose metrics are current."""
        found = self._prometheus.labels(f'metadata_quorum_leader_id{{quorum="{quorum.name}"}}')
        return {each["pod"] for each in found}

    def firing(self) -> list[dict[str, str]]:
        """Labels of each alert that fires now."""
        return self._prometheus.labels('ALERTS{alertstate="firing"}')

    def wait(self, *names: str, **labels: str) -> None:
        """Until they fire for the quorums of the table, with these labels."""
        self.find_members()
        for name in names:
            wait_for(
                f"{name} of {CAUSED_HERE[name]} {labels}",
                partial(self._fires, name, labels),
                timeout_s=_FIRING_S,
                seen=self.firing,
            )

    def _fires(self, name: str, labels: dict[str, str]) -> bool:
        return any(self._fits(each, name, labels) for each in self.firing())

    @staticmethod
    def _fits(found: dict[str, str], name: str, labels: dict[str, str]) -> bool:
        # The operator's metrics say `name`, those of members `quorum`.
        quorum = found.get("quorum") or found.get("name", "")
        same = (found["alertname"], quorum) == (name, CAUSED_HERE[name])
        return same and labels.items() <= found.items()


def short_rules(folder: Path) -> Path:
    """The chart's rules, which fire soon."""
    document = read_yaml(_RULES.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["for"] = _FOR
            rule["expr"] = rule["expr"].replace(_STUCK, _STUCK.replace("300", "5"))
    path = folder / "alerts.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_each_alert_is_caused_here() -> None:
    (group,) = read_yaml(_RULES.read_text())["groups"]
    assert CAUSED_HERE.keys() == {rule["alert"] for rule in group["rules"]}
    assert sum(_STUCK in rule["expr"] for rule in group["rules"]) == 1


@pytest.mark.requirement("OP-10")
@pytest.mark.timeout(900)
def test_alerts_fire_for_the_quorum_that_has_the_cause(env: Env, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    operator, proxy = env.add_operator(METADATAQUORUM_OPERATOR_LISTEN=f"127.0.0.1:{port}")
    operator.start()
    lost = env.apply(3, name=_LOST, disks=True, repair={"enabled": False})
    update = {"soakSeconds": 1, "canaryTimeoutSeconds": 60}
    full = env.apply(3, name=_FULL, disks=True, update=update)
    one = env.apply(1, name=_ONE, disks=True, tls={"mode": "Managed"})
    for quorum, wanted in ((lost, 3), (full, 3), (one, 1)):
        quorum.wait_ready(wanted, timeout_s=2 * MOVE_TIMEOUT_S)
    wait_proven(full)
    prometheus = Prometheus(tmp_path / "prometheus", port, short_rules(tmp_path))
    alerts = Alerts(prometheus, lost, full, one)
    with prometheus.running():
        wait_for("all is scraped", partial(is_calm, prometheus, alerts, 7, 3), timeout_s=60)
        lose(lost, alerts)
        stop_the_update(full, alerts)
        hand_over(full, alerts)
        fail_a_backup(full, alerts)
        fill_a_disk(full, alerts)
        with held(one):
            block_tls_and_a_plan(one, alerts)
            one.patch({"paused": True})
            alerts.wait("MetadataQuorumPaused", phase="Paused")
            one.patch({"paused": False, "replicas": 1})
        refuse_and_ask(env, alerts)
        fail_reconciles(env, proxy, one, alerts)
        with host_lost(one):
            alerts.wait("MetadataQuorumMembersUnreachable")
        operator.kill()
        alerts.wait("MetadataQuorumOperatorDown")


@pytest.mark.requirement("OP-10")
@pytest.mark.timeout(600)
def test_alerts_fire_for_replicas_that_lag_and_for_a_stuck_reconcile(
    env: Env, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    operator, proxy = env.add_operator(METADATAQUORUM_OPERATOR_LISTEN=f"127.0.0.1:{port}")
    operator.start()
    # A stopped voter counts as fetching for a minute, and a restarted one has all records to apply.
    config = {
        "controller.quorum.fetch.timeout.ms": "60000",
        "metadata.log.max.record.bytes.between.snapshots": str(_MANY_BYTES),
    }
    quorum = env.create(3, name=_BEHIND, config=config)
    prometheus = Prometheus(tmp_path / "prometheus", port, short_rules(tmp_path))
    alerts = Alerts(prometheus, quorum)
    with prometheus.running():
        wait_for("all is scraped", partial(is_calm, prometheus, alerts, 3, 1), timeout_s=60)
        append(quorum, _APPENDS)
        pod = stop_a_voter(quorum, alerts)
        quorum.send(pod, signal.SIGKILL)  # the container restarts at the same address
        alerts.wait("MetadataQuorumApplyLag", pod=pod)
        quorum.wait_ready(3)
        env.cluster.run(lambda: setattr(proxy, "delay_s", _SLOW_S))
        quorum.patch({"repair": {"debounceSeconds": 8}})
        alerts.wait("MetadataQuorumOperatorStuck")
        env.cluster.run(lambda: setattr(proxy, "delay_s", 0.0))


def stop_a_voter(quorum: ApiServerQuorum, alerts: Alerts) -> str:
    """The process of a follower is stopped while records are written. Returns its pod, in which it runs again."""
    voter = quorum.voter(leader=False)
    pod = quorum.pod_of(voter.id, voter.uuid)
    quorum.send(pod, signal.SIGSTOP)
    try:
        append(quorum, 2)
        quorum.patch({"repair": {"debounceSeconds": 7}})  # the operator looks at once
        alerts.wait("MetadataQuorumVoterLags")
    finally:
        quorum.send(pod, signal.SIGCONT)
    return pod


def append(quorum: ApiServerQuorum, times: int) -> None:
    """Many records, in large batches."""
    now = wait_for("a leader", quorum.describe, timeout_s=30)
    url = f"{admin_url(quorum, now)}/v1/append"
    resource = {"resourceType": "topic", "resourceName": "t"}
    entries = [{**resource, "name": f"n{each}", "value": "v"} for each in range(_ENTRIES)]
    headers = {"Authorization": f"Bearer {quorum.token()}"}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as client:
        for _ in range(times):
            body = {"entries": entries, "timeoutMs": 30_000}
            client.post(url, json=body).raise_for_status()


@pytest.mark.requirement("OP-10")
def test_alert_fires_for_a_certificate_that_its_issuer_does_not_renew(
    env: Env, tmp_path: Path
) -> None:
    """The issuer hands out certificates of which most of the lifetime has passed."""
    (port,) = free_ports(1)
    issuer = ModelledIssuer("A", time.time() - 400 * _DAY_S)
    trust(env, issuer.root)
    allow_certificates(env)
    certificate_issuer.install_definitions(env.api)
    manager = IssuingController(env.api, env.namespace, issuer)
    operator, _ = env.add_operator(METADATAQUORUM_OPERATOR_LISTEN=f"127.0.0.1:{port}")
    operator.start()
    with manager:
        quorum = env.create(1, name=_ISSUED, tls=ISSUED)
        prometheus = Prometheus(tmp_path / "prometheus", port, short_rules(tmp_path))
        alerts = Alerts(prometheus, quorum)
        with prometheus.running():
            wait_for("all is scraped", partial(is_calm, prometheus, alerts, 1, 1), timeout_s=60)
            manager.elapsed = 0.9
            manager.renew()
            alerts.wait("MetadataQuorumCertificatesNotRenewed")


def is_calm(prometheus: Prometheus, alerts: Alerts, members: int, quorums: int) -> bool:
    """Whether all is scraped, and nothing fires."""
    try:
        leaders = prometheus.labels('metadata_quorum_leader_id{partition="0"}')
        phases = prometheus.labels('metadataquorum_operator_quorum_phase{phase="Ready"} == 1')
        firing = alerts.firing()
    except (httpx.TransportError, httpx.HTTPStatusError):
        return False
    names = {each["alertname"] for each in firing} - _NOT_IN_PEACE
    return (len(leaders), len(phases), names) == (members, quorums, set())


def wait_proven(quorum: ApiServerQuorum) -> None:
    """Until what all members run is written down."""
    path = kube.core(quorum.namespace, "configmaps", f"{quorum.name}-identity")
    wait_for(
        "the record",
        lambda: (
            "metadataquorum.dev/update" in quorum.api.get(path)["metadata"].get("annotations", {})
        ),
        timeout_s=MOVE_TIMEOUT_S,
        seen=quorum.summary,
    )


def lose(quorum: ApiServerQuorum, alerts: Alerts) -> None:
    """One disk fails, which is not repaired, and then another one."""
    before = quorum.wait_ready(3)
    quorum.fail_disk(quorum.voter(leader=False, described=before))
    alerts.wait("MetadataQuorumMemberFailed", "MetadataQuorumWithoutTolerance")
    now = wait_for("a leader", quorum.describe, timeout_s=30)
    quorum.fail_disk(quorum.voter(leader=True, described=now))
    alerts.wait("MetadataQuorumLost", "MetadataQuorumWithoutLeader")


def stop_the_update(quorum: ApiServerQuorum, alerts: Alerts) -> None:
    """A value that no node accepts reaches the canary."""
    quorum.patch({"config": {"controller.quorum.fetch.timeout.ms": "soon"}})
    alerts.wait("MetadataQuorumUpdateFailed")
    quorum.patch({"config": None})
    quorum.wait_ready(3)


def hand_over(quorum: ApiServerQuorum, alerts: Alerts) -> None:
    """Leaders resign one after the other. Only what Prometheus sees growing counts."""
    alerts.find_members()
    pods = {pod["metadata"]["name"] for pod in quorum.pods()}
    wait_for("all are scraped", lambda: alerts.scraped(quorum) == pods, timeout_s=30)
    headers = {"Authorization": f"Bearer {quorum.token()}"}
    for _ in range(_ELECTIONS):
        now = wait_for("a leader", quorum.describe, timeout_s=30)
        url = f"{admin_url(quorum, now)}/v1/resign"
        httpx.post(url, json={}, headers=headers, trust_env=False).raise_for_status()
        wait_for("another epoch", partial(is_past, quorum, now.leader_epoch), timeout_s=30)
    alerts.wait("MetadataQuorumElections")


def admin_url(quorum: ApiServerQuorum, described: Described) -> str:
    """The leader's admin API, of a quorum without certificates."""
    pod = quorum.pod_of(described.leader_id, described.leader_uuid)
    return f"http://{quorum.address_of(pod)}:{quorum.admin_port}"


def is_past(quorum: ApiServerQuorum, epoch: int) -> bool:
    """Whether a majority confirms the leader of a later epoch."""
    now = quorum.describe()
    return now is not None and now.leader_epoch > epoch


def fail_a_backup(quorum: ApiServerQuorum, alerts: Alerts) -> None:
    quorum.patch({"backup": {"schedule": "30 2 * * *", "claimName": "backups"}})
    path = kube.batch(quorum.namespace, "cronjobs", f"{quorum.name}-backup")
    wait_for("the CronJob", lambda: quorum.api.find(path), timeout_s=30)
    end_backup(quorum, f"{quorum.name}-backup-now", successful=False)
    alerts.wait("MetadataQuorumBackupNotCurrent")


def fill_a_disk(quorum: ApiServerQuorum, alerts: Alerts) -> None:
    voter = quorum.voter(leader=False)
    pod = quorum.pod_of(voter.id, voter.uuid)
    volumes, volume = quorum.cluster.kubelet.volumes, quorum.volume_of(pod)
    volumes.fill(volume)
    alerts.wait("MetadataQuorumDiskFull")
    alerts.wait("MetadataQuorumDiskFilling", pod=pod)
    volumes.empty(volume)


@contextmanager
def held(quorum: ApiServerQuorum) -> Iterator[None]:
    """Its second member gets no host."""
    kubelet, pod = quorum.cluster.kubelet, f"{quorum.name}-2-1-0"
    quorum.cluster.run(lambda: kubelet.hold(quorum.namespace, pod))
    try:
        yield
    finally:
        quorum.cluster.run(lambda: kubelet.hold(quorum.namespace, pod, held=False))


def block_tls_and_a_plan(quorum: ApiServerQuorum, alerts: Alerts) -> None:
    """The Secret of a further authority is missing; a wanted member does not start."""
    quorum.patch({"tls": {"trustedCAs": [{"secret": {"name": "missing"}}]}, "replicas": 3})
    alerts.wait("MetadataQuorumTlsBlocked", "MetadataQuorumPlanStuck")


def refuse_and_ask(env: Env, alerts: Alerts) -> None:
    """One quorum names a priority class, another one a storage class, which do not exist."""
    env.apply(1, name=_REFUSED, podTemplate={"priorityClassName": "missing"})
    env.apply(1, name=_WRONG, storage={"size": "200Mi", "storageClassName": "missing"})
    alerts.wait("MetadataQuorumRefused")
    alerts.wait("MetadataQuorumNeedsDecision", condition="SpecInvalid")


def fail_reconciles(
    env: Env, proxy: RecordingProxy, quorum: ApiServerQuorum, alerts: Alerts
) -> None:
    """Reads of the resource are answered 503. Each change of it is handled at once, so backoff delays nothing."""
    refused: list[Call] = []

    def refuses(call: Call) -> bool:
        wanted = call.method == "GET" and call.path.endswith(f"/metadataquorums/{quorum.name}")
        if wanted:
            refused.append(call)
        return wanted

    env.cluster.run(lambda: setattr(proxy, "unavailable", refuses))
    for number in range(_FAILURES):
        refused.clear()
        quorum.patch({"repair": {"debounceSeconds": number}})
        wait_for("a failed read", refused.copy, timeout_s=30)
    alerts.wait("MetadataQuorumReconcileFailing", error="Unavailable")
    env.cluster.run(lambda: setattr(proxy, "unavailable", lambda call: False))


@contextmanager
def host_lost(quorum: ApiServerQuorum) -> Iterator[None]:
    (pod,) = quorum.pods()
    host, cluster = pod["spec"]["nodeName"], quorum.cluster
    cluster.call(cluster.kubelet.lose_node(host))
    try:
        yield
    finally:
        cluster.call(cluster.kubelet.add_node(host))
