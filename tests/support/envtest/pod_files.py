"""Environment variables and volumes of a pod.

Owns the translation of a pod's spec to variables and directories. Raises ObjectMissing while an object that the pod names does
not exist; a kubelet keeps such a pod in ContainerCreating.
"""

import os
import re
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from support.envtest.kube_api import Json, KubeApi
from support.envtest.sandbox import Mount

_CERTIFICATES = "tls"
"""Name of the volume."""
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


class ObjectMissing(Exception):
    """A named object does not exist yet; the message names it."""


class MountFailed(ObjectMissing):
    """A volume exists and can't be mounted."""


class PodFiles:
    """Variables and volumes of one pod, in `folder` as long as the pod exists."""

    def __init__(self, api: KubeApi, pod: Json, folder: Path, address: str, node: str) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._address = address
        self._node = node
        self._namespace: str = pod["metadata"]["namespace"]
        self._sources: dict[str, Path] = {}

    async def prepare(self) -> None:
        """Create the source directory of every volume. Raises ObjectMissing."""
        for volume in self._pod["spec"].get("volumes", []):
            self._sources[volume["name"]] = await self._source(volume)

    @property
    def has_certificates(self) -> bool:
        """Whether a volume contains certificates, which are replaced while the pod runs."""
        return _CERTIFICATES in self._sources

    async def renew(self) -> None:
        """Write the current content of the Secrets; each file is replaced atomically. Raises ObjectMissing."""
        for volume in self._pod["spec"].get("volumes", []):
            if "secret" in volume:
                await self._write(volume, self._sources[volume["name"]])

    def mounts(self, container: Json) -> list[Mount]:
        found = []
        for mount in container.get("volumeMounts", []):
            source = self._sources[mount["name"]] / mount.get("subPath", "")
            target = PurePosixPath(mount["mountPath"])
            found.append(Mount(source, target, mount.get("readOnly", False)))
        return found

    async def variables(self, container: Json) -> dict[str, str]:
        """The container's environment, references between variables expanded. Raises ObjectMissing."""
        found: dict[str, str] = {}
        for source in container.get("envFrom", []):
            prefix = source.get("prefix", "")
            found |= {prefix + key: text for key, text in (await self._keys(source, "Ref")).items()}
        for entry in container.get("env", []):
            if "valueFrom" in entry:
                found[entry["name"]] = await self._value(entry["valueFrom"])
            else:
                found[entry["name"]] = expand(entry.get("value", ""), found)
        return found

    async def _value(self, source: Json) -> str:
        if "fieldRef" in source:
            return self._field(source["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in source:
            return "0"
        (kind, reference), *_ = source.items()
        keys = await self._keys({kind.replace("KeyRef", "Ref"): reference}, "Ref")
        if reference["key"] not in keys:
            raise ObjectMissing(f"{reference['name']} has no key {reference['key']}")
        return keys[reference["key"]]

    def _field(self, path: str) -> str:
        metadata, spec = self._pod["metadata"], self._pod["spec"]
        keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
        if keyed:
            return str(metadata.get(keyed[1], {}).get(keyed[2], ""))
        return {
            "metadata.name": str(metadata["name"]),
            "metadata.namespace": self._namespace,
            "metadata.uid": str(metadata["uid"]),
            "spec.nodeName": self._node,
            "spec.serviceAccountName": str(spec.get("serviceAccountName", "default")),
            "status.podIP": self._address,
            "status.podIPs": self._address,
            "status.hostIP": "127.0.0.1",
        }[path]

    async def _keys(self, source: Json, suffix: str) -> dict[str, str]:
        """The data of the ConfigMap or Secret that `source` names, as text."""
        for kind, collection in (("configMap", "configmaps"), ("secret", "secrets")):
            reference = source.get(f"{kind}{suffix}")
            if reference is None:
                continue
            name = reference.get("name") or reference.get("secretName")
            found = await self._api.get(f"/api/v1/namespaces/{self._namespace}/{collection}/{name}")
            if found is None:
                if reference.get("optional"):
                    return {}
                raise ObjectMissing(f"{collection} {name} not found")
            data: dict[str, str] = found.get("data", {})
            if kind == "secret":
                return {key: b64decode(text).decode() for key, text in data.items()}
            return data
        return {}

    async def _source(self, volume: Json) -> Path:
        if "persistentVolumeClaim" in volume:
            return await self._claimed(volume["persistentVolumeClaim"]["claimName"])
        if "hostPath" in volume:
            return Path(str(volume["hostPath"]["path"]))
        directory = self._own_directory(volume["name"])
        parts = volume["projected"]["sources"] if "projected" in volume else [volume]
        for part in parts:
            await self._write(part, directory)
        return directory

    def _own_directory(self, name: str) -> Path:
        directory = self._folder / "volumes" / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    async def _write(self, part: Json, directory: Path) -> None:
        """ConfigMap and Secret keys become files; an emptyDir or a token stays as it is."""
        keys = await self._keys(part, "")
        chosen = (part.get("configMap") or part.get("secret") or {}).get("items")
        paths = {item["key"]: item["path"] for item in chosen} if chosen else {k: k for k in keys}
        for key, path in paths.items():
            if key not in keys:
                raise ObjectMissing(f"no key {key} for volume")
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            written = directory / path
            if written.is_file() and written.read_text() == keys[key]:
                continue
            fresh = written.with_name(f".{written.name}.new")
            fresh.write_text(keys[key])
            fresh.replace(written)

    async def _claimed(self, name: str) -> Path:
        claim = await self._api.get(
            f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{name}"
        )
        if claim is None or claim.get("status", {}).get("phase") != "Bound":
            raise ObjectMissing(f"claim {name} is not bound")
        volume = await self._api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
        if volume is None:
            raise ObjectMissing(f"the volume of claim {name} is gone")
        return _mountable(volume)


def _mountable(volume: Json) -> Path:
    path = Path(volume["spec"]["local"]["path"])
    # Checked in the parent's listing: a failed disk itself answers EIO, and yet it can be mounted.
    if path.name not in os.listdir(path.parent):
        raise MountFailed(
            f'MountVolume.SetUp failed for volume "{volume["metadata"]["name"]}" : it can not be read'
        )
    return path


def expand(text: str, variables: Mapping[str, str]) -> str:
    """$(NAME) becomes its value, $$ a dollar sign; an unknown name stays as written."""

    def replaced(match: re.Match[str]) -> str:
        return "$" if match[1] is None else variables.get(match[1], match[0])

    return _REFERENCE.sub(replaced, text)
