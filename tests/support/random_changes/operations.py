"""Manual operations on a quorum: find a member, an object or a host, change the spec, and undo changes.

Owns the present valid spec (`good`), so that undoing a temporary change keeps later valid changes. Never waits for the operator.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import httpx

from support.envtest.kube_api import ApiError, Json
from support.kind_env import installation, kube
from support.kind_env.environment import KindEnv
from support.kind_env.quorum import NO_ANSWER
from support.kind_env.testbed import Disk, network, nodes, run
from support.random_changes.act import Drawn
from support.random_changes.drift import drifted, essence, of_members
from support.workload.target import Target

UUID = "metadataquorum.dev/replica-uuid"
_EDIT_TRIES = 10
_RESTART_TRIES = 60
_ADMIN_TIMEOUT_MS = 3000
_FIELDS_AT_FIRST = (
    "config",
    "resources",
    "affinity",
    "tolerations",
    "nodeSelector",
    "retire",
    "imagePullPolicy",
    "repair",
    "spread",
    "replacementOrder",
    "deletionPolicy",
    "paused",
    "tls",
    "update",
    "terminationGracePeriodSeconds",
    "recovery",
    "allowEvenReplicas",
    "update",
    "podTemplate",
    "networkPolicy",
    "backup",
    "earlierClaims",
)


class TargetMissing(Exception):
    """The target of the act does not exist at the moment: nothing was done."""


@dataclass(frozen=True, slots=True)
class Member:
    """A StatefulSet that should run a member, by name; its pod and claim follow from that."""

    name: str
    node_id: int
    uuid: str | None

    @property
    def pod(self) -> str:
        return f"{self.name}-0"

    @property
    def claim(self) -> str:
        return f"data-{self.name}-0"


class Operations:
    """Operations on one quorum, whose resource was applied with `spec`."""

    def __init__(self, env: KindEnv, spec: Json) -> None:
        self.env = env
        self.quorum = env.the_quorum
        self.api = env.cluster.api
        self.namespace, self.name = self.quorum.namespace, self.quorum.name
        self.good: Json = {**dict.fromkeys(_FIELDS_AT_FIRST), **spec}
        self._first = {name: essence(self.api.get(path)) for name, path in self.owned.items()}

    # ---- What there is

    @cached_property
    def _set_name(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self.name)}-(\d+)-(\d+)")

    def sets(self) -> list[Json]:
        """Its StatefulSets, found by name, because labels may have been changed."""
        every = self.api.list(kube.apps(self.namespace, "statefulsets"))
        return [each for each in every if self._set_name.fullmatch(each["metadata"]["name"])]

    def pods(self) -> list[Json]:
        every = self.api.list(kube.core(self.namespace, "pods"))
        names = ((each, each["metadata"]["name"].removesuffix("-0")) for each in every)
        return [each for each, name in names if self._set_name.fullmatch(name)]

    def members(self) -> list[Member]:
        """The members that should run."""
        return sorted(self._members(), key=lambda each: each.name)

    def _members(self) -> Iterator[Member]:
        for each in self.sets():
            name = each["metadata"]["name"]
            found = self._set_name.fullmatch(name)
            if found and each["spec"]["replicas"] > 0:
                notes = each["metadata"].get("annotations") or {}
                yield Member(name, int(found[1]), notes.get(UUID))

    def member(self, drawn: Drawn) -> Member:
        """The leader, or the member with this rank."""
        members = self.members()
        if not members:
            raise TargetMissing("no StatefulSet")
        if drawn.leader:
            described = self.quorum.describe()
            for each in members:
                if described is not None and each.uuid == described.leader_uuid:
                    return each
        return members[drawn.rank % len(members)]

    def other(self, drawn: Drawn, than: Member) -> Member:
        """Another member than this one."""
        others = [each for each in self.members() if each != than]
        if not others:
            raise TargetMissing("no other member")
        return others[drawn.rank % len(others)]

    def host_of(self, member: Member) -> str:
        """The Node of its pod."""
        pod = self.api.find(kube.core(self.namespace, "pods", member.pod))
        host = pod["spec"].get("nodeName") if pod is not None else None
        if host is None:
            raise TargetMissing(f"no pod {member.pod} on a host")
        return str(host)

    def address_of(self, member: Member) -> str:
        pod = self.api.find(kube.core(self.namespace, "pods", member.pod))
        address = pod["status"].get("podIP") if pod is not None else None
        if address is None:
            raise TargetMissing(f"no pod {member.pod} with an address")
        return str(address)

    def disk_of(self, member: Member) -> Disk:
        claim = self.api.find(kube.core(self.namespace, "persistentvolumeclaims", member.claim))
        volume = claim["spec"].get("volumeName", "") if claim is not None else ""
        if not volume.startswith("disk-"):
            raise TargetMissing(f"{member.claim} is on no disk that can fail: {volume or 'none'}")
        return Disk.of_volume(volume)

    @property
    def workers(self) -> list[str]:
        names = nodes.node_names(self.env.cluster.name)
        return sorted(each for each in names if "worker" in each)

    def need_all_hosts(self) -> None:
        """Raises TargetMissing while a host is off or paused."""
        off = [each for each in self.workers if not nodes.is_running(each)]
        if off:
            raise TargetMissing(f"{off[0]} is off already")

    @contextlib.contextmanager
    def switched_off(self, host: str) -> Iterator[None]:
        """Switches the host off, and on again whatever happens.

        One host at a time: of two containers that are off at once, each may get the address of the other.
        """
        self.need_all_hosts()
        nodes.stop_node(host)
        try:
            yield
        finally:
            nodes.start_node(host)

    def core(self, plural: str, name: str) -> str:
        return kube.core(self.namespace, plural, name)

    def set_path(self, member: Member) -> str:
        return kube.apps(self.namespace, "statefulsets", member.name)

    @property
    def owned(self) -> dict[str, str]:
        """Objects of the quorum that belong to no member: readable name → path."""
        return {
            "service nodes": self.core("services", f"{self.name}-nodes"),
            "service admin": self.core("services", f"{self.name}-admin"),
            "service bootstrap": self.core("services", f"{self.name}-bootstrap"),
            "config": self.core("configmaps", f"{self.name}-config"),
            "identity": self.core("configmaps", f"{self.name}-identity"),
            "token secret": self.core("secrets", f"{self.name}-admin"),
            "network policy": kube.network_policies(self.namespace, f"{self.name}-members"),
            "disruption budget": kube.policy(self.namespace, "poddisruptionbudgets", self.name),
        }

    def own(self, uid: str) -> None:
        """Set the UID of the resource that owns everything from now on."""
        for each in self._first.values():
            each["owners"] = [uid]

    def drifted(self) -> list[str]:
        """The operator's objects that are missing or changed."""
        now = {name: self.api.find(path) for name, path in self.owned.items()}
        labels = {
            "app.kubernetes.io/name": "metadataquorum",
            "app.kubernetes.io/instance": self.name,
        }
        return [
            *drifted(self._first, now),
            *of_members(self.sets(), self.pods(), labels),
            *self._missing_certificates(),
        ]

    def _missing_certificates(self) -> Iterator[str]:
        """Missing objects with certificates, if the quorum has certificates."""
        if not self.quorum.is_secured():
            return
        holders = [f"{self.name}-admin", *(member.name for member in self.members())]
        paths = [self.core("secrets", f"{holder}-tls") for holder in holders]
        for path in (self.core("configmaps", f"{self.name}-trust"), *paths):
            if self.api.find(path) is None:
                yield f"{path} is missing"

    # ---- Changing

    def edit(self, path: str, change: Callable[[Json], None]) -> Json:
        """Read, change and write an object; repeated after a conflict."""
        for tries_left in reversed(range(_EDIT_TRIES)):
            found = self.api.find(path)
            if found is None:
                raise TargetMissing(path)
            change(found)
            try:
                return self.api.call("PUT", path, found)
            except ApiError as error:
                if error.status != 409 or not tries_left:
                    raise
        raise AssertionError("unreachable")

    def want(self, **fields: object) -> None:
        """Change the spec permanently: later restores keep this change."""
        self.wish(**fields)
        self.good.update(fields)

    def wish(self, **fields: object) -> None:
        """Change the spec temporarily. None removes a field."""

        def change(resource: Json) -> None:
            resource["spec"].update(fields)
            for name in [name for name, value in fields.items() if value is None]:
                del resource["spec"][name]

        self.edit(self.quorum.path, change)

    def restore(self, *names: str) -> None:
        """Restore the permanent spec."""
        self.wish(**{name: self.good.get(name) for name in names})

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        if not self.api.delete(path, grace_s=grace_s):
            raise TargetMissing(path)

    def admin(self, method: str, path: str, body: Json | None = None) -> str:
        """A request to the leader's admin API, as quorumctl sends it."""
        load = self.env.the_load
        target = Target(
            [load.url],
            token=self.token(),
            timeout_ms=_ADMIN_TIMEOUT_MS,
            authorities=load.authorities,
        )
        try:
            return str(target.call(method, path, body))
        finally:
            target.turn()

    def token(self) -> str:
        """The admin token. Raises TargetMissing if an act has emptied the Secret."""
        try:
            return self.quorum.token()
        except KeyError as error:
            raise TargetMissing("the Secret has no token") from error

    def await_restart(self) -> None:
        """Wait for an API server that was just killed. One that hangs is not waited for: it is another act's to let it go on."""
        for _ in range(_RESTART_TRIES):
            try:
                self.api.find(f"{kube.NAMESPACES}/{self.namespace}")
            except httpx.ConnectError:
                time.sleep(1.0)
            except NO_ANSWER:
                return
            else:
                return

    def kubectl(self, *words: str, timeout_s: float = 60.0) -> str:
        """Run kubectl; returns its output, or its errors if it failed."""
        command = [*installation.kubectl_command(self.env.cluster.kubeconfig), *words]
        done = run(command, timeout_s=timeout_s, check=False)
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    # ---- Putting right what is no part of the quorum

    def deployment(self) -> str:
        return kube.apps(installation.OPERATOR_NAMESPACE, "deployments", installation.RELEASE)

    def calm(self) -> None:
        """Restore hosts, links and the operator after a round."""
        self.env.await_api_server()
        self.api.merge(self.deployment(), {"spec": {"replicas": 1}})
        known = {each["metadata"]["name"] for each in self.api.list(kube.NODES)}
        for host in self.workers:
            network.heal(host)
            if host not in known:
                nodes.restart_kubelet(host)
            else:
                self.api.merge(f"{kube.NODES}/{host}", {"spec": {"unschedulable": None}})
                self.kubectl("taint", "node", host, "by-hand-")
