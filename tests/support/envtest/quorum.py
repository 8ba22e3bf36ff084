"""A MetadataQuorum in the harness: queries and faults.

Owns the access to a pod (its loopback address) and the faults of the harness's kubelet and volumes. Waiting and checks
are shared with the tests on kind.
"""

import signal
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx

from support.envtest.cluster import ApiServerCluster
from support.envtest.kube_api import ApiError, Json
from support.envtest.service import PodTlsAccess
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.kind_env.quorum import ADMIN_PORT, SECURE_ADMIN_PORT, Described, Quorum, Voter
from support.kind_env.waiting import wait_for
from support.workload.evaluation import VoterSet, double_steps
from support.workload.replica_log import read_replica_log

CREATE_TIMEOUT_S = 120.0
MOVE_TIMEOUT_S = 120.0
_NODE_ID = "metadataquorum.dev/node-id"
_FAILED = "metadataquorum.dev/failed"


@dataclass(frozen=True, slots=True)
class FailedDisk:
    """The member whose disk was shut down, and the PV under it."""

    key: tuple[int, str]
    pod: str
    volume: str


class ApiServerQuorum(Quorum):
    """Queries pods directly; `cluster` injects the faults. `tls`: its members have certificates."""

    def __init__(
        self,
        api: Kube,
        cluster: ApiServerCluster,
        namespace: str,
        name: str,
        *,
        tls: bool = False,
    ) -> None:
        super().__init__(api, namespace, name)
        self.cluster = cluster
        self._tls = tls
        # Plain HTTP: loading certificates takes longer than the call. No keep-alive: an address
        # outlives its pod.
        self._pods = httpx.Client(
            verify=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    @property
    def admin_port(self) -> int:
        """Admin port of each pod."""
        return SECURE_ADMIN_PORT if self._tls else ADMIN_PORT

    @property
    def tls_access(self) -> PodTlsAccess | None:
        """How a client without a certificate reaches the pods; None: in clear text."""
        if not self._tls:
            return None
        return PodTlsAccess(self.admin.context, f"{self.name}-admin.{self.namespace}.svc")

    def address_of(self, pod: str) -> str:
        """IP address of a pod. Raises KeyError if it has none yet."""
        address: str = self.api.get(kube.core(self.namespace, "pods", pod))["status"]["podIP"]
        return address

    def fetch_from(self, pod: str, path: str, *, timeout_s: float = 20.0) -> dict[str, Any]:
        """GET on one pod's own admin API. Raises ApiError where it doesn't answer 2xx."""
        address = self.api.get(kube.core(self.namespace, "pods", pod))["status"].get("podIP")
        if address is None:
            raise ApiError("GET", path, 503, f"{pod} has no address yet")
        if self._tls:
            url = f"https://{address}:{self.admin_port}{path}"
            answer = self.admin.get(url, self.host_of(pod), timeout_s=timeout_s)
        else:
            url = f"http://{address}:{self.admin_port}{path}"
            answer = self._pods.get(url, timeout=timeout_s)
        if not answer.is_success:
            raise ApiError("GET", url, answer.status_code, answer.text)
        document: dict[str, Any] = answer.json()
        return document

    # Queries.

    def wait_ready(self, wanted: int, *, timeout_s: float = MOVE_TIMEOUT_S) -> Described:
        """Wait until there are `wanted` healthy voters, the status is Ready and no move is pending."""
        described = self.wait_healthy(wanted, timeout_s=timeout_s)
        self.wait_phase("Ready", timeout_s=timeout_s)
        wait_for("nothing to do", self._is_idle, timeout_s=timeout_s, seen=self.summary)
        return described

    def _is_idle(self) -> bool:
        return (self.status().get("plan") or {}).get("step") == "Nothing"

    def incarnations(self) -> dict[str, int]:
        """Desired replicas of every StatefulSet by name."""
        return {s["metadata"]["name"]: s["spec"]["replicas"] for s in self.stateful_sets()}

    def identities(self) -> list[str]:
        """Names of the identity objects."""
        found = self.api.list(kube.core(self.namespace, "configmaps"), self.selector)
        return [
            each["metadata"]["name"] for each in found if "-identity" in each["metadata"]["name"]
        ]

    def latched(self) -> set[str]:
        """Names of the incarnations that are marked as failed."""
        return {
            s["metadata"]["name"]
            for s in self.stateful_sets()
            if _FAILED in s["metadata"].get("annotations", {})
        }

    def claims_by_uid(self) -> dict[str, str]:
        return {c["metadata"]["uid"]: c["metadata"]["name"] for c in self.claims()}

    def voter_sets(self) -> tuple[VoterSet, ...]:
        """Every committed voters record, from the log of a pod."""
        described = wait_for("a description", self.describe, timeout_s=30, seen=self.summary)
        pod = self.pod_of(described.leader_id, described.leader_uuid)
        return read_replica_log(pod, lambda path: self.fetch_from(pod, path)).voter_sets

    def steps_since(self, offset: int = -1) -> list[str]:
        """The voter changes after `offset`, as +id and -id. Fails if one is not a single step."""
        sets = [found for found in self.voter_sets() if found.offset >= offset]
        assert double_steps(sets) == []
        steps = []
        for before, after in pairwise(sets):
            (change,) = before.keys ^ after.keys
            steps.append(f"{'+' if change in after.keys else '-'}{change[0]}")
        return steps

    def last_voters_offset(self) -> int:
        return self.voter_sets()[-1].offset

    # Faults.

    def voter(self, *, leader: bool, described: Described | None = None) -> Voter:
        """The leader, or a voter that is not the leader."""
        now = described or wait_for("a description", self.describe, timeout_s=90)
        return next(v for v in now.voters if (v.id == now.leader_id) == leader)

    def volume_of(self, pod: str) -> str:
        claim = self.api.get(kube.core(self.namespace, "persistentvolumeclaims", f"data-{pod}"))
        return str(claim["spec"]["volumeName"])

    def fail_disk(self, voter: Voter) -> FailedDisk:
        """Shuts down the file system under a member: every access gives EIO from now on."""
        pod = self.pod_of(voter.id, voter.uuid)
        volume = self.volume_of(pod)
        self.cluster.kubelet.volumes.fail(volume)
        return FailedDisk((voter.id, voter.uuid), pod, volume)

    def revive_disk(self, failed: FailedDisk) -> None:
        self.cluster.kubelet.volumes.revive(failed.volume)

    def send(self, pod: str, number: signal.Signals) -> None:
        """A signal to the node's process in a pod."""
        runtime = self.cluster.kubelet.runtime(self.namespace, pod)
        assert self.cluster.run(lambda: runtime.containers[0].send(number)), f"{pod} does not run"

    def restarts(self, pod: str) -> int:
        status: Json = self.api.get(kube.core(self.namespace, "pods", pod))["status"]
        return sum(c["restartCount"] for c in status.get("containerStatuses", []))

    def starts(self) -> dict[str, int]:
        """Restarts of each pod, by its UID: no process was started again while this stays."""
        return {
            pod["metadata"]["uid"]: self.restarts(pod["metadata"]["name"]) for pod in self.pods()
        }

    def exit_code(self, pod: str) -> int | None:
        """Exit code of the last ended container of this pod; None also without such a pod."""
        found = self.api.find(kube.core(self.namespace, "pods", pod))
        status: Json = found["status"] if found is not None else {}
        for container in status.get("containerStatuses", []):
            for state in (container["state"], container["lastState"]):
                if "terminated" in state:
                    return int(state["terminated"]["exitCode"])
        return None

    def wait_replaced(self, failed: FailedDisk, wanted: int) -> Described:
        """Wait until the failed replica key is no voter and has been replaced."""
        self.wait_healthy(
            wanted,
            timeout_s=MOVE_TIMEOUT_S,
            also=lambda now: failed.key not in now.keys,
            what=f"a successor of {failed.key}",
        )
        return self.wait_ready(wanted)
