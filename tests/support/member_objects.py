"""The objects of one namespace as the API server would hold them, for tests of what the operator reads.

Owns reading by name and by labels, as in `kube.finding.Reads`. Nothing acts on the objects.
"""

import copy
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import identity, stateful_set
from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.planner.observed import Identity

Object = dict[str, Any]
IDENTITY = Identity(1, "c1", 1, "U1", 3, formed=True)
CREATED = "2026-01-02T03:00:00Z"
_SPEC = MetadataQuorumSpec()


class MemberObjects:
    """`objects`: by path. `reads`: the paths that were read by name."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.reads: list[str] = []

    async def get(self, path: str) -> Object | None:
        self.reads.append(path)
        return self.objects.get(path)

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        wanted = dict(each.split("=") for each in labels.split(",")) if labels else {}
        if fields is not None:
            assert fields.startswith("involvedObject.uid=")
            return []  # no annotations
        return [
            each
            for place, each in self.objects.items()
            if place.startswith(f"{path}/")
            if wanted.items() <= each["metadata"].get("labels", {}).items()
        ]

    async def names(self, path: str) -> frozenset[str]:
        places = (each.rpartition("/") for each in self.objects)
        return frozenset(name for place, _, name in places if place == path)

    def add(self, space: str, plural: str, body: Object) -> Object:
        """As it is given, with a UID."""
        name = body["metadata"]["name"]
        body["metadata"].setdefault("uid", f"{plural}-{name}")
        body["metadata"].setdefault("creationTimestamp", CREATED)
        body["metadata"].setdefault("resourceVersion", "1")
        self.objects[paths.namespaced(plural, space, name)] = body
        return body

    def add_identity(self, owner: Owner, index: int = 1) -> Object:
        body = identity.build(
            owner,
            index=index,
            cluster_id=f"c{index}",
            founder_id=1,
            founder_uuid="U1",
            initial_voters=3,
        )
        return self.add(owner.namespace, "configmaps", body)

    def add_member(
        self, owner: Owner, node_id: int, number: int = 1
    ) -> tuple[Object, Object, Object]:
        """A StatefulSet, its pod and its claim."""
        member = stateful_set.Member(node_id, number, IDENTITY, founder=False)
        owned = self.add(owner.namespace, "statefulsets", stateful_set.build(owner, _SPEC, member))
        name = owned["metadata"]["name"]
        pod = copy.deepcopy(owned["spec"]["template"])
        pod["metadata"] |= {"name": f"{name}-0", "ownerReferences": [_controller(owned)]}
        pod["status"] = {
            "phase": "Running",
            "podIP": f"10.0.{number}.{node_id}",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"state": {"running": {}}}],
        }
        self.add(owner.namespace, "pods", pod)
        claim = copy.deepcopy(owned["spec"]["volumeClaimTemplates"][0])
        claim["metadata"]["name"] = f"data-{name}-0"
        self.add(owner.namespace, "persistentvolumeclaims", claim)
        return owned, pod, claim


def _controller(owned: Object) -> Object:
    meta = owned["metadata"]
    return {
        "kind": "StatefulSet",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
