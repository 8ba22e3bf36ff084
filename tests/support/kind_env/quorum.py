"""One MetadataQuorum on a cluster: its resource, its pods and its description.

The voters are taken from a description that a majority confirmed, fetched through the API server. The resource's status
is only compared with it.
"""

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from support.envtest.certificate_client import HeldCertificate
from support.envtest.kube_api import ApiError, Json
from support.kind_env import kube
from support.kind_env.forwarded import NotConnected
from support.kind_env.kube import Kube
from support.kind_env.pod_connections import PodAddress, PodConnections
from support.kind_env.waiting import NotInTime, wait_for

ADMIN_PORT = 8080
SECURE_ADMIN_PORT = 8443
NO_ANSWER = (ApiError, NotConnected, httpx.HTTPError)
"""What a question to a pod or to the API server may raise."""
_CONFIRMED = "/v1/quorum?confirmed=true&timeoutMs=1500"
_ASK_TIMEOUT_S = 4.0
_INSTANCE = "app.kubernetes.io/instance"
_NAME = "app.kubernetes.io/name"


@dataclass(frozen=True, slots=True)
class Voter:
    """One replica key of the committed voter set, and its state according to the leader."""

    id: int
    uuid: str
    fetching: bool
    caught_up: bool


@dataclass(frozen=True, slots=True)
class Described:
    """A description that a majority confirmed."""

    leader_id: int
    leader_uuid: str
    leader_epoch: int
    voters: tuple[Voter, ...]
    settled: bool
    high_watermark: int
    document: Json = field(compare=False, repr=False)

    @property
    def keys(self) -> frozenset[tuple[int, str]]:
        return frozenset((voter.id, voter.uuid) for voter in self.voters)

    def healthy(self, wanted: int) -> bool:
        """Whether there are `wanted` voters with different ids, all caught up, and nothing is pending."""
        return (
            self.settled
            and len(self.voters) == wanted
            and len({voter.id for voter in self.voters}) == wanted
            and all(voter.fetching and voter.caught_up for voter in self.voters)
        )


class Quorum:
    """Queries of a MetadataQuorum by namespace and name."""

    def __init__(self, api: Kube, namespace: str, name: str) -> None:
        self.api = api
        self.namespace = namespace
        self.name = name
        self.admin = HeldCertificate(api, namespace, f"{name}-admin-tls")
        self._answered = ""
        self._connections = PodConnections(api.access, self.admin.context)
        self._secured: dict[str, bool] = {}

    def close(self) -> None:
        """Close the connections to its pods; later queries open new ones."""
        self._connections.close()

    @property
    def path(self) -> str:
        return kube.quorums(self.namespace, self.name)

    @property
    def selector(self) -> str:
        return f"{_NAME}=metadataquorum,{_INSTANCE}={self.name}"

    def resource(self) -> Json:
        return self.api.get(self.path)

    def status(self) -> Json:
        status: Json = self.resource().get("status") or {}
        return status

    def phase(self) -> str:
        return str(self.status().get("phase", ""))

    def condition(self, kind: str) -> Json | None:
        for condition in self.status().get("conditions", []):
            if condition["type"] == kind:
                found: Json = condition
                return found
        return None

    def condition_is(self, kind: str, status: str = "True") -> bool:
        condition = self.condition(kind)
        return condition is not None and condition["status"] == status

    def members(self) -> list[Json]:
        members: list[Json] = self.status().get("members", [])
        return members

    def member(self, node_id: int) -> Json:
        """The member's newest incarnation."""
        found = [member for member in self.members() if member["id"] == node_id]
        return max(found, key=lambda member: member.get("incarnation") or 0)

    def pods(self) -> list[Json]:
        return self.api.list(kube.core(self.namespace, "pods"), self.selector)

    def pod_of(self, node_id: int, uuid: str | None = None) -> str:
        """Name of the running pod of a member, by replica UUID if two pods have the id."""
        for pod in self.pods():
            labels = pod["metadata"]["labels"]
            if labels.get("metadataquorum.dev/node-id") != str(node_id):
                continue
            name: str = pod["metadata"]["name"]
            if uuid is None or self.node_description(name).get("replicaUuid") == uuid:
                return name
        raise AssertionError(f"{self.name}: no pod of node {node_id} {uuid or ''}")

    def stateful_sets(self) -> list[Json]:
        return self.api.list(kube.apps(self.namespace, "statefulsets"), self.selector)

    def claims(self) -> list[Json]:
        """Every claim of this quorum's members, including former ones."""
        everything = self.api.list(kube.core(self.namespace, "persistentvolumeclaims"))
        prefix = f"data-{self.name}-"
        return [claim for claim in everything if claim["metadata"]["name"].startswith(prefix)]

    def token(self) -> str:
        secret = self.api.get(kube.core(self.namespace, "secrets", f"{self.name}-admin"))
        return b64decode(secret["data"]["token"]).decode()

    def is_secured(self) -> bool:
        """Whether its admin API is served over TLS only. False while there is no pod."""
        return any(_is_secured(pod) for pod in self.pods())

    def host_of(self, pod: str) -> str:
        """The name in the certificate of the member in this pod."""
        return f"{pod}.{self.name}-nodes.{self.namespace}.svc"

    def authorities(self) -> str:
        """The authorities that a client trusts, in PEM; empty if the object does not exist."""
        trust = self.api.find(kube.core(self.namespace, "configmaps", f"{self.name}-trust"))
        return str(((trust or {}).get("data") or {}).get("ca.crt", ""))

    def fetch_from(self, pod: str, path: str, *, timeout_s: float = 20.0) -> dict[str, Any]:
        """GET on one pod's own admin API. Raises ApiError where it doesn't answer 2xx, NotConnected without an answer."""
        known = self._secured.get(pod)
        if known is not None:
            try:
                return self._fetch(pod, path, timeout_s, secured=known)
            except NO_ANSWER:
                self._secured.pop(pod, None)
        # Another pod may have this name by now, with other ports.
        found = self.api.get(kube.core(self.namespace, "pods", pod))
        answer = self._fetch(pod, path, timeout_s, secured=_is_secured(found))
        self._secured[pod] = _is_secured(found)
        return answer

    def _fetch(self, pod: str, path: str, timeout_s: float, *, secured: bool) -> dict[str, Any]:
        if not secured:
            target = kube.core(self.namespace, "pods", f"http:{pod}:{ADMIN_PORT}")
            return self.api.get(f"{target}/proxy{path}", timeout_s=timeout_s)
        address = PodAddress(self.namespace, pod, SECURE_ADMIN_PORT, self.host_of(pod))
        return self._connections.get(address, path, timeout_s=timeout_s)

    def in_clear_text(self, pod: str, path: str) -> Json:
        """GET on the pod's port in clear text, which has only probes and metrics beside TLS. Raises ApiError."""
        return self._fetch(pod, path, _ASK_TIMEOUT_S, secured=False)

    def node_description(self, pod: str) -> Json:
        """Description of the node in the pod; empty without an answer."""
        try:
            return self.fetch_from(pod, "/v1/node", timeout_s=_ASK_TIMEOUT_S)
        except NO_ANSWER:
            return {}

    def describe(self) -> Described | None:
        """The confirmed description; None without one. Queries the pods in turn, the last successful one first."""
        names = [pod["metadata"]["name"] for pod in self.pods() if _is_running(pod)]
        for name in sorted(names, key=lambda name: name != self._answered):
            try:
                document = self.fetch_from(name, _CONFIRMED, timeout_s=_ASK_TIMEOUT_S)
            except NO_ANSWER:
                continue
            if document.get("confirmed"):
                self._answered = name
                return described(document)
        return None

    def scale(self, replicas: int) -> None:
        """Set the replicas by the scale subresource, as `kubectl scale` does."""
        self.api.merge(f"{self.path}/scale", {"spec": {"replicas": replicas}})

    def patch(self, spec: Json) -> None:
        self.api.merge(self.path, {"spec": spec})

    def wait_healthy(
        self,
        wanted: int,
        *,
        timeout_s: float,
        also: Callable[[Described], bool] = lambda described: True,
        what: str = "",
    ) -> Described:
        """Wait until there are `wanted` healthy voters and `also` is true."""
        last: list[Described | None] = [None]

        def probe() -> Described | None:
            last[0] = now = self.describe()
            return now if now is not None and now.healthy(wanted) and also(now) else None

        return wait_for(
            what or f"{wanted} healthy voters",
            probe,
            timeout_s=timeout_s,
            seen=lambda: (last[0], self.summary()),
        )

    def wait_phase(self, phase: str, *, timeout_s: float) -> None:
        """Wait until the status shows the phase for the current spec."""

        def probe() -> bool:
            resource = self.resource()
            status = resource.get("status") or {}
            current = status.get("observedGeneration") == resource["metadata"]["generation"]
            return bool(current and status.get("phase") == phase)

        wait_for(f"phase {phase}", probe, timeout_s=timeout_s, seen=self.summary)

    def wait_condition(self, kind: str, *, timeout_s: float, status: str = "True") -> Json:
        def probe() -> bool:
            return self.condition_is(kind, status)

        wait_for(f"condition {kind}={status}", probe, timeout_s=timeout_s, seen=self.summary)
        return self.condition(kind) or {}

    def wait_gone(self, *, timeout_s: float) -> None:
        def gone() -> bool:
            return self.api.find(self.path) is None and not self.pods()

        try:
            wait_for(f"{self.name} to be gone", gone, timeout_s=timeout_s)
        except NotInTime as late:
            raise NotInTime(f"{late}; {self.api.find(self.path)}") from None

    def plan(self) -> str:
        """The operator's plan and its reason, from the status."""
        status = self.status()
        plan = status.get("plan") or {}
        blocked = f", waiting for {plan['blockedBy']}" if plan.get("blockedBy") else ""
        return f"{status.get('phase', 'unseen')}: {plan.get('reason', 'no plan yet')}{blocked}"

    def summary(self) -> str:
        """One line of the status, for messages."""
        found = self.api.find(self.path)
        if found is None:
            return "the resource is gone"
        status: Json = found.get("status") or {}
        plan = status.get("plan") or {}
        members = [
            f"{m['id']}/{m.get('incarnation')}{'v' if m.get('voter') else ''}"
            f"{'' if m.get('ready') else '!'}{':' + m['condition'] if m.get('condition') else ''}"
            for m in status.get("members", [])
        ]
        conditions = [
            f"{c['type']}({c['reason']})"
            for c in status.get("conditions", [])
            if c["status"] == "True"
        ]
        return (
            f"phase {status.get('phase')}, members {' '.join(members)}, plan {plan.get('step')} "
            f"({plan.get('reason')}; blocked by {plan.get('blockedBy')}), "
            f"conditions {' '.join(conditions)}"
        )


def described(document: Json) -> Described:
    """From the admin API's QuorumDescription."""
    voters = tuple(
        Voter(v["id"], v["uuid"], bool(v["fetching"]), bool(v["caughtUp"]))
        for v in document["voters"]
    )
    settled = (
        not document["pendingChange"]
        and bool(document["ownEpochCommitted"])
        and bool(document["votersPosition"]["committed"])
        and bool(document["formed"])
    )
    return Described(
        leader_id=document["leaderId"],
        leader_uuid=document["leaderUuid"],
        leader_epoch=document["leaderEpoch"],
        voters=voters,
        settled=settled,
        high_watermark=document["highWatermark"],
        document=document,
    )


def _is_secured(pod: Json) -> bool:
    ports = pod["spec"]["containers"][0].get("ports", [])
    return any(port["containerPort"] == SECURE_ADMIN_PORT for port in ports)


def _is_running(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
