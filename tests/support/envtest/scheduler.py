"""The scheduler and volume provisioner for tests: binds pods to workers and creates their volumes.

Owns the binding, the PVs of the test's storage classes and the reclaiming of released ones. `nodes` has the rules;
`volumes` has the data.
"""

import asyncio

from support.envtest import nodes
from support.envtest.kube_api import ApiError, Json, KubeApi
from support.envtest.mirror import Key, Mirror, key_of
from support.envtest.pod_runtime import unschedulable
from support.envtest.volumes import (
    CLASSES,
    PROVISIONER,
    Volumes,
    persistent_volume,
    volume_name,
)


class Scheduler:
    """Pods named in `held` stay Pending."""

    def __init__(
        self,
        api: KubeApi,
        volumes: Volumes,
        *,
        pods: Mirror,
        claims: Mirror,
        pvs: Mirror,
        nodes: Mirror,
    ) -> None:
        self.held: set[Key] = set()
        self._api = api
        self._volumes = volumes
        self._pods = pods
        self._claims = claims
        self._pvs = pvs
        self._nodes = nodes
        self._assumed: dict[str, str] = {}

    async def schedule(self, pod: Json) -> None:
        """Bind `pod` to a node, or write the reason into its status. Can be repeated."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        if uid in self._assumed:
            return
        if key_of(pod) in self.held:
            await self._refuse(pod, "held by the test")
            return
        found = [self._claims.get(namespace, name) for name in _claim_names(pod)]
        claims = [claim for claim in found if claim is not None]
        if len(claims) < len(found):
            return
        volumes = {volume_name(claim): self._pvs.get("", volume_name(claim)) for claim in claims}
        missing = [claim for claim in claims if volumes[volume_name(claim)] is None]
        if not all(_is_ours(claim) for claim in missing):
            await self._refuse(pod, "a claim has a storage class that nothing provides")
            return
        bound = [volume for volume in volumes.values() if volume is not None]
        where = nodes.choose(pod, self._nodes.values(), self._placed(), bound)
        if where is None:
            await self._refuse(pod, "no node is available for the pod")
            return
        self._assumed[uid] = where
        try:
            for claim in missing:
                await self._provide(claim, where)
            await self._bind(pod, where)
        except BaseException:
            del self._assumed[uid]  # it is tried again
            raise

    async def reclaim(self, volume: Json) -> None:
        """A released volume of the class is deleted with its bytes, as its policy says."""
        made_by = volume["metadata"].get("annotations", {}).get("pv.kubernetes.io/provisioned-by")
        policy = volume["spec"]["persistentVolumeReclaimPolicy"]
        released = volume.get("status", {}).get("phase") == "Released"
        if made_by != PROVISIONER or policy != "Delete" or not released:
            return
        if "deletionTimestamp" not in volume["metadata"]:
            name = volume["metadata"]["name"]
            await asyncio.to_thread(self._volumes.remove, name)
            await self._api.delete(f"/api/v1/persistentvolumes/{name}")

    def _placed(self) -> list[Json]:
        """The pods with their nodes, including bindings that the watch does not show yet."""
        placed = []
        for pod in self._pods.values():
            assumed = self._assumed.get(pod["metadata"]["uid"])
            spec = pod["spec"] | ({"nodeName": assumed} if assumed else {})
            placed.append(pod | {"spec": spec})
        return placed

    async def _provide(self, claim: Json, where: str) -> None:
        name, storage_class = volume_name(claim), claim["spec"]["storageClassName"]
        path = await asyncio.to_thread(self._volumes.make, name, storage_class)
        volume = persistent_volume(claim, path, where)
        await _unless_there(self._api, "/api/v1/persistentvolumes", volume)

    async def _bind(self, pod: Json, where: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["metadata"]["name"]},
            "target": {"kind": "Node", "name": where},
        }
        await _unless_there(self._api, f"{path_of(pod)}/binding", binding)

    async def _refuse(self, pod: Json, why: str) -> None:
        conditions = pod.get("status", {}).get("conditions", [])
        if not any(condition.get("message") == why for condition in conditions):
            await self._api.merge(f"{path_of(pod)}/status", unschedulable(why))


def path_of(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _is_ours(claim: Json) -> bool:
    return claim["spec"].get("storageClassName") in CLASSES


def _claim_names(pod: Json) -> list[str]:
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", [])
        if "persistentVolumeClaim" in volume
    ]


async def _unless_there(api: KubeApi, path: str, body: Json) -> None:
    try:
        await api.create(path, body)
    except ApiError as error:
        if error.status not in (404, 409):
            raise
