"""Moves that an operator makes automatically, for repeated tests: the cause and the expected end of each.

A move starts on a ready quorum of three. `prepare` runs while the operator works, `begin` causes the move, and `settle`
waits for the end and checks it. Each move leaves a quorum of three.
"""

from dataclasses import dataclass

from support.envtest.kube_api import Json
from support.envtest.quorum import ApiServerQuorum, FailedDisk
from support.kind_env import kube
from support.kind_env.quorum import Described, Voter
from support.kind_env.waiting import wait_for

_TIMEOUT_S = 60.0
_ROTATION_TIMEOUT_S = 120.0
_ROTATE = "metadataquorum.dev/rotate-ca"
_INSTANCE = "app.kubernetes.io/instance"


@dataclass(frozen=True, slots=True)
class Before:
    """The state before a move."""

    described: Described
    incarnations: frozenset[str]
    claims: frozenset[str]
    pods: frozenset[str]
    """UIDs."""
    offset: int

    @classmethod
    def of(cls, quorum: ApiServerQuorum) -> "Before":
        described = quorum.wait_ready(3)
        # The status may be older than the restart of a pod that the previous move caused.
        wait_for(
            "the pods of all voters answer",
            lambda: {uuid for _, uuid in described.keys} <= _answering(quorum),
            timeout_s=_TIMEOUT_S,
            seen=quorum.summary,
        )
        return cls(
            described,
            frozenset(quorum.incarnations()),
            frozenset(quorum.claims_by_uid()),
            _pods(quorum),
            quorum.last_voters_offset(),
        )


def _pods(quorum: ApiServerQuorum) -> frozenset[str]:
    return frozenset(each["metadata"]["uid"] for each in quorum.pods())


def _answering(quorum: ApiServerQuorum) -> frozenset[str]:
    """UUIDs of the replicas that answer."""
    found = (quorum.node_description(each["metadata"]["name"]) for each in quorum.pods())
    return frozenset(each["replicaUuid"] for each in found if each)


class Move:
    """One move of one quorum."""

    disks = False
    """Its members need disks that can fail."""
    tls = False
    """They have certificates."""

    def __init__(self, quorum: ApiServerQuorum, before: Before) -> None:
        self.quorum, self.before = quorum, before

    def prepare(self) -> None:
        """Establish the precondition; the operator may take part."""

    def begin(self) -> None:
        """Cause the move. Does not wait for the operator."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for the end and check it. Raises AssertionError."""
        raise NotImplementedError

    def clean_up(self) -> None:
        """Undo changes, also after a failure."""

    def follower(self) -> Voter:
        """A voter that was not the leader before the move."""
        return self.quorum.voter(leader=False, described=self.before.described)

    def member(self) -> str:
        """Name of that voter's StatefulSet."""
        each = self.follower()
        return self.quorum.pod_of(each.id, each.uuid).removesuffix("-0")

    def is_as_before(self) -> None:
        """The same replicas on the same claims, and no voter was changed."""
        after = self.quorum.wait_ready(3)
        assert after.keys == self.before.described.keys
        assert frozenset(self.quorum.claims_by_uid()) == self.before.claims
        assert self.quorum.steps_since(self.before.offset) == []
        assert frozenset(self.quorum.incarnations()) == self.before.incarnations


class Replacement(Move):
    """A follower's disk fails."""

    disks = True
    _failed: FailedDisk

    def begin(self) -> None:
        self._failed = self.quorum.fail_disk(self.follower())

    def settle(self) -> None:
        failed, quorum, before = self._failed, self.quorum, self.before
        after, node_id = quorum.wait_replaced(failed, 3), failed.key[0]
        assert before.described.keys - after.keys == {failed.key}
        assert sorted(quorum.steps_since(before.offset)) == [f"+{node_id}", f"-{node_id}"]
        made = quorum.incarnations().keys() - before.incarnations
        assert len(made) == 1, f"extra replacement: {made}"
        assert quorum.incarnations()[failed.pod.removesuffix("-0")] == 0
        assert before.claims < set(quorum.claims_by_uid()), "a claim was deleted"


class ScaleUp(Move):
    """The spec asks for five voters."""

    def begin(self) -> None:
        self.quorum.scale(5)

    def settle(self) -> None:
        quorum, before = self.quorum, self.before
        after = quorum.wait_ready(5)
        assert before.described.keys < after.keys
        added = sorted(f"+{node_id}" for node_id, _ in after.keys - before.described.keys)
        assert sorted(quorum.steps_since(before.offset)) == added
        assert len(quorum.incarnations().keys() - before.incarnations) == 2


class RebuiltMember(Move):
    """A user deletes a follower's StatefulSet; its claim stays."""

    def begin(self) -> None:
        path = kube.apps(self.quorum.namespace, "statefulsets", self.member())
        assert self.quorum.api.delete(path)

    def settle(self) -> None:
        wanted = self.before.incarnations
        wait_for(
            "the StatefulSet is there again",
            lambda: frozenset(self.quorum.incarnations()) == wanted,
            timeout_s=_TIMEOUT_S,
            seen=self.quorum.summary,
        )
        self.is_as_before()


class RebuiltIdentity(Move):
    """A user deletes the identity."""

    def begin(self) -> None:
        self._cluster_id = self.quorum.status()["clusterId"]
        self._path = kube.core(self.quorum.namespace, "configmaps", f"{self.quorum.name}-identity")
        assert self.quorum.api.delete(self._path)

    def settle(self) -> None:
        found = wait_for(
            "the identity is there again",
            lambda: self.quorum.api.find(self._path),
            timeout_s=_TIMEOUT_S,
            seen=self.quorum.summary,
        )
        assert found["data"]["clusterId"] == self._cluster_id
        assert found["data"]["formed"] == "true", "a quorum could be formed again with this id"
        self.is_as_before()
        assert _pods(self.quorum) == self.before.pods, "a pod was restarted"


class RestoredLabels(Move):
    """A user removes the label from a follower's pod that Services and the StatefulSet controller use."""

    def begin(self) -> None:
        self._path = kube.core(self.quorum.namespace, "pods", f"{self.member()}-0")
        self._labels = self._meta()["labels"]
        self.quorum.api.merge(self._path, {"metadata": {"labels": {_INSTANCE: None}}})

    def settle(self) -> None:
        wait_for(
            "the label is back",
            lambda: self._meta()["labels"] == self._labels,
            timeout_s=_TIMEOUT_S,
            seen=self.quorum.summary,
        )
        self.is_as_before()
        assert _pods(self.quorum) == self.before.pods, (
            "the pod was created again instead of adopted"
        )

    def _meta(self) -> Json:
        found: Json = self.quorum.api.get(self._path)["metadata"]
        return found


class Adoption(Move):
    """The resource is deleted with `--cascade=orphan` and applied again, with its claims confirmed."""

    def begin(self) -> None:
        api, quorum = self.quorum.api, self.quorum
        resource, cluster_id = quorum.resource(), quorum.status()["clusterId"]
        orphan(quorum)
        spec = {
            **resource["spec"],
            "earlierClaims": {"policy": "Adopt", "clusterId": cluster_id},
        }
        kept = {key: resource[key] for key in ("apiVersion", "kind")}
        api.create(
            kube.quorums(quorum.namespace),
            {**kept, "metadata": {"name": quorum.name}, "spec": spec},
        )

    def settle(self) -> None:
        uid = self.quorum.resource()["metadata"]["uid"]
        wait_for(
            "all StatefulSets are this resource's",
            lambda: owners(self.quorum) == {uid},
            timeout_s=_TIMEOUT_S,
            seen=self.quorum.summary,
        )
        self.is_as_before()
        assert _pods(self.quorum) == self.before.pods, "a pod was restarted"


def orphan(quorum: ApiServerQuorum) -> None:
    """`kubectl delete --cascade=orphan`; returns when the garbage collector has taken the owner off all that it made."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    quorum.api.call("DELETE", quorum.path, options)
    wait_for("it is gone", lambda: quorum.api.find(quorum.path) is None, timeout_s=_TIMEOUT_S)
    wait_for("nothing has an owner", lambda: owners(quorum) == {""}, timeout_s=_TIMEOUT_S)


def owners(quorum: ApiServerQuorum) -> set[str]:
    """UIDs of the owners of the StatefulSets; empty for one without an owner."""
    found = [each["metadata"].get("ownerReferences") or [] for each in quorum.stateful_sets()]
    return {each["uid"] for references in found for each in references} | (
        {""} if not all(found) else set()
    )


class TakenBack(Move):
    """A follower's host and its Node object are missing until its volume counts as lost; then both return."""

    _successors: tuple[str, ...] = ()
    _is_away = False

    def prepare(self) -> None:
        quorum = self.quorum
        self._member, cluster = self.member(), quorum.cluster
        node_id, number = map(int, self._member.split("-")[-2:])
        self._successors = tuple(
            f"{quorum.name}-{node_id}-{later}" for later in range(number + 1, number + 40)
        )
        for each in self._successors:  # a successor that caught up would replace the member
            self._hold(each, held=True)
        pod = kube.core(quorum.namespace, "pods", f"{self._member}-0")
        self._host: str = quorum.api.get(pod)["spec"]["nodeName"]
        self._is_away = True
        cluster.call(cluster.kubelet.lose_node(self._host))
        wait_for(
            "its volume is held to be gone, it is stopped, and its successor is made",
            lambda: self._is_stopped() and self._has_successor(),
            timeout_s=_TIMEOUT_S,
            seen=quorum.summary,
        )

    def begin(self) -> None:
        self._return()

    def settle(self) -> None:
        quorum = self.quorum
        wait_for(
            "the latch is taken back",
            lambda: not quorum.latched() and quorum.incarnations()[self._member] == 1,
            timeout_s=_TIMEOUT_S,
            seen=quorum.summary,
        )
        after = quorum.wait_ready(3)
        assert after.keys == self.before.described.keys
        assert quorum.steps_since(self.before.offset) == []
        running = {name for name, wanted in quorum.incarnations().items() if wanted > 0}
        assert running == self.before.incarnations

    def _is_stopped(self) -> bool:
        return self.quorum.incarnations()[self._member] == 0

    def _has_successor(self) -> bool:
        return not self.quorum.incarnations().keys().isdisjoint(self._successors)

    def clean_up(self) -> None:
        for each in self._successors:
            self._hold(each, held=False)
        self._return()

    def _hold(self, member: str, *, held: bool) -> None:
        cluster, space = self.quorum.cluster, self.quorum.namespace
        cluster.run(lambda: cluster.kubelet.hold(space, f"{member}-0", held=held))

    def _return(self) -> None:
        if self._is_away:
            cluster = self.quorum.cluster
            cluster.call(cluster.kubelet.add_node(self._host))
            self._is_away = False


class RotatedAuthority(Move):
    """A user asks for another authority. Members load it, and nothing is restarted."""

    tls = True

    def begin(self) -> None:
        tls = self.quorum.status()["tls"]
        self._generation = int(tls["authority"]) + 1
        self._starts = self.quorum.starts()
        wanted = {_ROTATE: str(self._generation)}
        self.quorum.api.merge(self.quorum.path, {"metadata": {"annotations": wanted}})

    def settle(self) -> None:
        wait_for(
            f"authority {self._generation} alone",
            self._is_alone,
            timeout_s=_ROTATION_TIMEOUT_S,
            seen=self.quorum.summary,
        )
        self.is_as_before()
        assert self.quorum.starts() == self._starts, "a pod was restarted"

    def _is_alone(self) -> bool:
        """Every member trusts only this one, and shows a certificate that it has signed."""
        condition = self.quorum.condition("TlsReady") or {}
        name = f"CA {self._generation}"
        found = [
            self.quorum.fetch_from(pod["metadata"]["name"], "/v1/node")["tls"]["trusted"]
            for pod in self.quorum.pods()
        ]
        only = all(len(each) == 1 and name in each[0]["subject"] for each in found)
        return len(found) == 3 and only and condition.get("reason") == "CertificatesIssued"


MOVES: dict[str, type[Move]] = {
    "replacement": Replacement,
    "scale-up": ScaleUp,
    "rebuilt-member": RebuiltMember,
    "rebuilt-identity": RebuiltIdentity,
    "restored-labels": RestoredLabels,
    "adoption": Adoption,
    "taken-back": TakenBack,
    "rotated-authority": RotatedAuthority,
}
