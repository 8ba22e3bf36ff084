"""The harness itself: StatefulSet pods become processes with volumes, names, probes and faults."""

import json
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from support.envtest.cluster import ApiServerCluster, wait_for

pytestmark = pytest.mark.envtest

Json = dict[str, Any]
_START_TIMEOUT_S = 90.0
_EXPECTED = {404, 409, 429, 500, 503, 504}


class StandInSet:
    """A StatefulSet of stand-in programs."""

    def __init__(self, cluster: ApiServerCluster, storage_class: str = "directory") -> None:
        self.cluster = cluster
        self.namespace = cluster.new_namespace("kubelet")
        self.core = f"/api/v1/namespaces/{self.namespace}"
        self.sets = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets"
        self._make(storage_class)

    def pod(self, ordinal: int = 0) -> Json:
        return self.cluster.existing(f"{self.core}/pods/s-{ordinal}")

    def container(self) -> Json:
        status: Json = self.pod()["status"]["containerStatuses"][0]
        return status

    def ready(self, ordinal: int = 0) -> Json:
        def is_ready() -> Json | None:
            pod = self.pod(ordinal)
            conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
            return pod if conditions.get("Ready") == "True" else None

        return wait_for(f"s-{ordinal} is ready", is_ready, timeout_s=_START_TIMEOUT_S)

    def ask(self, path: str, ordinal: int = 0) -> str:
        address = self.pod(ordinal)["status"]["podIP"]
        return httpx.get(f"http://{address}:8080/{path}", trust_env=False).raise_for_status().text

    def resolved(self, name: str) -> list[str]:
        """The addresses of a name, once it has any: names follow the pods' statuses."""

        def known() -> list[str] | None:
            try:
                found: list[str] = json.loads(self.ask(f"resolve?name={name}"))
            except httpx.RemoteProtocolError:
                return None  # there is no such name yet
            return found

        return wait_for(f"{name} is known", known, timeout_s=_START_TIMEOUT_S)

    def order(self, path: str) -> None:
        """Asks for something that ends the process, so that no answer comes."""
        with pytest.raises(httpx.HTTPError):
            self.ask(path)

    def _make(self, storage_class: str) -> None:
        create = self.cluster.create
        config = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"greeting": "hello"}}
        create(f"{self.core}/configmaps", {"apiVersion": "v1", **config})
        secret = {"kind": "Secret", "metadata": {"name": "t"}, "stringData": {"token": "sesame"}}
        create(f"{self.core}/secrets", {"apiVersion": "v1", **secret})
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "peers"},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {"app": "s"},
                "ports": [{"port": 8080}],
            },
        }
        create(f"{self.core}/services", service)
        create(self.sets, _stateful_set(storage_class))


def _stateful_set(storage_class: str) -> Json:
    mounts = {"data": "/data", "latch": "/run/latch", "config": "/etc/c", "token": "/etc/c/token"}
    container = {
        "name": "main",
        "image": "stand-in",
        "args": ["--port", "$(PORT)"],
        "env": [
            {"name": "PORT", "value": "8080"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {
                "name": "GREETING",
                "valueFrom": {"configMapKeyRef": {"name": "c", "key": "greeting"}},
            },
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "failureThreshold": 1},
        "livenessProbe": {"httpGet": {"path": "/live", "port": 8080}},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
    }
    volumes = [
        {"name": "latch", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "token", "secret": {"secretName": "t"}},
    ]
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {
            "replicas": 1,
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "s"}},
            "template": {
                "metadata": {"labels": {"app": "s"}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [container],
                    "volumes": volumes,
                },
            },
            "volumeClaimTemplates": [claim],
        },
    }


@pytest.fixture
def stand_in(cluster: ApiServerCluster) -> StandInSet:
    return StandInSet(cluster)


def test_pod_gets_its_volumes_environment_variables_and_names(stand_in: StandInSet) -> None:
    pod = stand_in.ready()
    assert stand_in.ask("file?path=/etc/c/greeting") == "hello"
    assert stand_in.ask("file?path=/etc/c/token/token") == "sesame"
    environment = json.loads(stand_in.ask("env"))
    assert (environment["POD"], environment["GREETING"]) == ("s-0", "hello")
    name = f"s-0.peers.{stand_in.namespace}.svc"
    assert stand_in.resolved(name) == [pod["status"]["podIP"]]


@pytest.mark.long
def test_new_pod_is_resolvable_by_name_from_a_running_pod_without_restart(
    stand_in: StandInSet,
) -> None:
    stand_in.ready()
    stand_in.cluster.merge(f"{stand_in.sets}/s", {"spec": {"replicas": 2}})
    second = stand_in.ready(1)
    assert stand_in.resolved("s-1.peers") == [second["status"]["podIP"]]
    assert second["spec"]["nodeName"] != stand_in.pod(0)["spec"]["nodeName"]


@pytest.mark.long
def test_exited_container_is_reported_with_code_and_message_and_restarted(
    stand_in: StandInSet,
) -> None:
    before = stand_in.ready()
    stand_in.order("exit?code=74&message=disk")

    def restarted() -> Json | None:
        status = stand_in.container()
        return status if status["restartCount"] == 1 and status["ready"] else None

    status = wait_for("it runs again", restarted, timeout_s=_START_TIMEOUT_S)
    ended = status["lastState"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (74, "disk")
    assert stand_in.pod()["status"]["podIP"] == before["status"]["podIP"]


def test_sigkill_gives_exit_code_137_and_the_volume_is_kept(
    stand_in: StandInSet, cluster: ApiServerCluster
) -> None:
    stand_in.ready()
    assert stand_in.ask("write") == "tick\n"
    container = cluster.kubelet.runtime(stand_in.namespace, "s-0").containers[0]
    assert cluster.run(lambda: container.send(signal.SIGKILL))
    status = wait_for(
        "it was restarted",
        lambda: stand_in.container() if stand_in.container()["restartCount"] else None,
        timeout_s=_START_TIMEOUT_S,
    )
    assert status["lastState"]["terminated"]["exitCode"] == 137
    stand_in.ready()
    assert stand_in.ask("write") == "tick\ntick\n"


@pytest.mark.long
def test_unready_pod_has_a_false_ready_condition(stand_in: StandInSet) -> None:
    stand_in.ready()
    stand_in.ask("unready")
    wait_for(
        "the pod is not ready",
        lambda: not stand_in.container()["ready"],
        timeout_s=_START_TIMEOUT_S,
    )


@pytest.mark.long
def test_recreated_pod_has_its_volume_and_another_address(
    stand_in: StandInSet, cluster: ApiServerCluster
) -> None:
    first = stand_in.ready()
    stand_in.ask("write")
    cluster.delete(f"{stand_in.core}/pods/s-0")

    def replaced() -> bool:
        return bool(stand_in.pod()["metadata"]["uid"] != first["metadata"]["uid"])

    wait_for("another pod", replaced, timeout_s=_START_TIMEOUT_S)
    second = stand_in.ready()
    assert second["status"]["podIP"] != first["status"]["podIP"]
    assert second["spec"]["nodeName"] == first["spec"]["nodeName"]
    assert stand_in.ask("write") == "tick\ntick\n"


def test_failed_disk_returns_eio_and_has_its_old_data_after_recovery(
    cluster: ApiServerCluster,
) -> None:
    stand_in = StandInSet(cluster, "disk")
    stand_in.ready()
    stand_in.ask("write")
    claim = cluster.existing(f"{stand_in.core}/persistentvolumeclaims/data-s-0")
    volume = claim["spec"]["volumeName"]
    cluster.kubelet.volumes.fail(volume)
    stand_in.order("write")

    def failed_again() -> bool:
        terminated = stand_in.container()["lastState"].get("terminated", {})
        return terminated.get("exitCode") == 74

    wait_for("exit code 74", failed_again, timeout_s=_START_TIMEOUT_S)
    cluster.kubelet.volumes.revive(volume)
    cluster.delete(f"{stand_in.core}/pods/s-0")

    def writes() -> bool:
        try:
            return stand_in.ask("write") == "tick\ntick\n"
        except (httpx.HTTPError, KeyError):
            return False

    wait_for("the disk works again", writes, timeout_s=_START_TIMEOUT_S)


@pytest.mark.long
def test_held_pod_stays_pending_until_released(cluster: ApiServerCluster) -> None:
    stand_in = StandInSet(cluster)
    cluster.run(lambda: cluster.kubelet.hold(stand_in.namespace, "s-1"))
    stand_in.ready()
    cluster.merge(f"{stand_in.sets}/s", {"spec": {"replicas": 2}})

    def refused() -> bool:
        conditions = stand_in.pod(1)["status"].get("conditions", [])
        return any(c.get("reason") == "Unschedulable" for c in conditions)

    wait_for("s-1 is unschedulable", refused, timeout_s=_START_TIMEOUT_S)
    cluster.run(lambda: cluster.kubelet.hold(stand_in.namespace, "s-1", held=False))
    stand_in.ready(1)


def test_lost_node_terminates_its_pod_and_the_local_volume_keeps_it_pending(
    cluster: ApiServerCluster,
) -> None:
    stand_in = StandInSet(cluster)
    where = stand_in.ready()["spec"]["nodeName"]
    cluster.call(cluster.kubelet.lose_node(where))
    try:

        def pending() -> bool:
            conditions = stand_in.pod()["status"].get("conditions", [])
            return any(c.get("reason") == "Unschedulable" for c in conditions)

        wait_for("the pod has no node", pending, timeout_s=_START_TIMEOUT_S)
    finally:
        cluster.call(cluster.kubelet.add_node(where))
    assert stand_in.ready()["spec"]["nodeName"] == where


def test_kubelet_reported_no_unexpected_error(cluster: ApiServerCluster) -> None:
    """A server that is busy or away is expected: its calls are made again."""
    described: Callable[[BaseException], str] = repr
    assert not [
        described(each)
        for each in cluster.kubelet.failures
        if getattr(each, "status", 0) not in _EXPECTED
        and not isinstance(each, httpx.TransportError)
    ]
