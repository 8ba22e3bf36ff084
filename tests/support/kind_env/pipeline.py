"""The archive of a quorum on the cluster, as the chart installs it: a driver, and executors as pods of their own.

A separate release without an operator, in the quorum's namespace. Must not know the tests.
"""

from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from quorum_pipeline.archive.layout import MARKER, OffsetRange, parse_directory, tiles
from quorum_pipeline.files.written_parts import ALL_COLUMNS
from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.installation import CHART, helm_command, kubectl_command
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.quorum import Quorum
from support.kind_env.testbed import TestbedError, lifecycle, nodes, project_images, run
from support.kind_env.waiting import wait_for

RELEASE = "archive"
MASTER = "k8s://https://kubernetes.default.svc"
_SELECTOR = "app.kubernetes.io/name=metadataquorum-pipeline,app.kubernetes.io/component"
_RECORDS = "/archive/records"
_ENDED_IN_ORDER_S = 45.0
"""Less than the grace of the driver's pod: one that does not listen would be there longer."""


class Pipeline:
    """A context manager; it is uninstalled at the end."""

    def __init__(self, cluster: OperatorCluster, quorum: Quorum) -> None:
        self._cluster = cluster
        self._quorum = quorum
        self._namespace = quorum.namespace
        self._kubectl = [*kubectl_command(cluster.kubeconfig), "-n", self._namespace]
        self._helm = [*helm_command(cluster.kubeconfig), "--namespace", self._namespace]

    def __enter__(self) -> "Pipeline":
        image = project_images.build_pipeline()
        lifecycle.load(self._cluster.name, [image])
        repository, tag = image.rsplit(":", 1)
        settings = {
            "crds.install": "false",
            "replicaCount": "0",
            "pipeline.enabled": "true",
            "pipeline.image.repository": repository,
            "pipeline.image.tag": tag,
            "pipeline.bootstrap": f"{self._quorum.name}-bootstrap.{self._namespace}.svc:9093",
            "pipeline.master": MASTER,
            "pipeline.everySeconds": "1",
            "pipeline.volume.size": "1Gi",
            "pipeline.executors.memory": "512m",
        }
        command = [*self._helm, "upgrade", "--install", RELEASE, str(CHART)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        run([*command, "--wait", "--timeout", "180s"], timeout_s=240)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Uninstall it. The archive is deleted with the namespace."""
        if kind is None:
            run([*self._helm, "uninstall", RELEASE, "--wait", "--timeout", "60s"], timeout_s=90)

    # -- pods

    def driver(self) -> str:
        """Name of the driver's pod."""
        return wait_for(
            "the driver", lambda: next(iter(self._running("driver")), None), timeout_s=90
        )

    def executors(self) -> list[str]:
        """Names of the pods of running executors."""
        return self._running("executor")

    def pods(self) -> list[Json]:
        """Pods of driver and executors in any state."""
        path = kube.core(self._namespace, "pods")
        return self._cluster.api.list(path, f"{_SELECTOR} in (driver,executor)")

    def wait_executors(self, *, without: str = "", timeout_s: float = 120) -> list[str]:
        """Wait until the configured number runs, without the named one."""

        def probe() -> list[str] | None:
            found = self.executors()
            return found if len(found) == 2 and without not in found else None

        return wait_for("two executors", probe, timeout_s=timeout_s, seen=self.seen)

    def wait_worker(self, *, timeout_s: float = 120) -> str:
        """Wait for an executor in which a task has run; returns its pod. A new executor may get no task for some seconds."""

        def probe() -> str | None:
            return next((pod for pod in self.executors() if self._has_worked(pod)), None)

        return wait_for("an executor at work", probe, timeout_s=timeout_s, seen=self.seen)

    def kill_9(self, pod: str) -> None:
        """SIGKILL to the pod's process."""
        target = nodes.running_container(self._cluster.kubeconfig, self._namespace, pod)
        nodes.signal_container(target, "SIGKILL")

    def delete(self, pod: str) -> None:
        """As `kubectl delete pod --force` does."""
        self._cluster.api.delete(kube.core(self._namespace, "pods", pod), grace_s=0)

    def stop(self) -> None:
        """Scale to zero replicas; the driver ends on SIGTERM, and its executors with it."""
        path = kube.apps(self._namespace, "deployments", f"{RELEASE}-pipeline")
        self._cluster.api.merge(path, {"spec": {"replicas": 0}})
        wait_for("no pods", lambda: not self.pods(), timeout_s=_ENDED_IN_ORDER_S, seen=self.seen)

    # -- the archive

    def archived(self) -> list[OffsetRange]:
        """The valid ranges in order."""
        search = f"find {_RECORDS} -name {MARKER} 2>/dev/null || true"
        try:
            found = self._shell(self.driver(), search).split()
        except TestbedError:
            return []
        ranges = [parse_directory(Path(line).parent.name) for line in found]
        return tiles(each for each in ranges if each is not None)[0]

    def wait_archived(self, end_offset: int, *, timeout_s: float = 120) -> list[OffsetRange]:
        """Wait until everything below an offset is archived."""

        def probe() -> list[OffsetRange] | None:
            found = self.archived()
            return found if found and found[-1].end >= end_offset else None

        return wait_for(
            f"offsets below {end_offset} in the archive",
            probe,
            timeout_s=timeout_s,
            seen=lambda: (self.archived()[-1:], self.seen()),
            poll_s=1.0,
        )

    def rows(self, ranges: list[OffsetRange], columns: list[str], folder: Path) -> pa.Table:
        """Rows of these ranges by offset, copied from the cluster and read without Spark."""
        folder.mkdir(parents=True, exist_ok=True)
        source = f"{self._namespace}/{self.driver()}:{_RECORDS}"
        run([*self._kubectl, "cp", "-c", "driver", source, str(folder)], timeout_s=120)
        directories = [folder / each.directory for each in ranges]
        # Files of one type lack the columns of the others.
        tables = [
            ds.dataset(each, schema=pq.read_schema(each / ALL_COLUMNS)).to_table(columns)
            for each in directories
        ]
        return pa.concat_tables(tables).sort_by("offset")

    def seen(self) -> object:
        """A summary for messages."""
        found = [(pod["metadata"]["name"], pod["status"].get("phase")) for pod in self.pods()]
        logs = [*self._kubectl, "logs", "--tail=5", f"deployment/{RELEASE}-pipeline"]
        return found, run(logs, timeout_s=30, check=False).stdout

    def _running(self, component: str) -> list[str]:
        path = kube.core(self._namespace, "pods")
        return [
            pod["metadata"]["name"]
            for pod in self._cluster.api.list(path, f"{_SELECTOR}={component}")
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def _has_worked(self, pod: str) -> bool:
        """Whether a task has run in it: then there is a Python process beside Spark's JVM."""
        search = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c ^quorum_pipeline.spark.worker_daemon"
        try:
            return int(self._shell(pod, search)) > 0
        except TestbedError:
            return False

    def _shell(self, pod: str, script: str) -> str:
        return run([*self._kubectl, "exec", pod, "--", "sh", "-c", script], timeout_s=30).stdout
