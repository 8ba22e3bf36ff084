"""The names of a cluster DNS, as one hosts file that all pods of a namespace share.

Owns the mapping from Services to names, and the file. The file is bound over /etc/hosts of each pod, so it is
rewritten in place (same inode) at a constant size: a reader never sees a truncated file.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from support.envtest.kube_api import Json

_FIXED_SIZE_BYTES = 16 * 1024
_LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"


class HostsFile:
    """The shared file; `write` replaces the names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written = b""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self.write([])

    def write(self, entries: Iterable[tuple[str, str]]) -> None:
        """`entries` are (address, name). An unchanged content is not written again."""
        lines = "".join(f"{address} {name}\n" for address, name in entries)
        content = (_LOCAL + lines).encode()
        if len(content) > _FIXED_SIZE_BYTES:
            raise RuntimeError("too many pods for the hosts file of the harness")
        content += b"\n" * (_FIXED_SIZE_BYTES - len(content))
        if content != self._written:
            os.pwrite(self._file, content, 0)
            self._written = content

    def close(self) -> None:
        os.close(self._file)


def names(pods: Iterable[Json], services: Iterable[Json]) -> list[tuple[str, str]]:
    """(address, name) pairs: a name per pod of a headless Service, and each Service's own name.

    A Service name resolves to its pods (ready ones only, unless not-ready addresses are published);
    there is no proxy with a cluster address here.
    """
    alive = [pod for pod in pods if pod.get("status", {}).get("podIP")]
    found: list[tuple[str, str]] = []
    for service in services:
        selector = service["spec"].get("selector")
        if not selector:
            continue
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        all_published = service["spec"].get("publishNotReadyAddresses", False)
        for pod in alive:
            labels = pod["metadata"].get("labels", {})
            if pod["metadata"]["namespace"] != namespace or not selector.items() <= labels.items():
                continue
            if not (all_published or is_ready(pod)):
                continue
            address = pod["status"]["podIP"]
            found += ((address, spelling) for spelling in _spellings(name, namespace))
            if pod["spec"].get("subdomain") == name and pod["spec"].get("hostname"):
                host = f"{pod['spec']['hostname']}.{name}"
                found += ((address, spelling) for spelling in _spellings(host, namespace))
    return sorted(found)


def is_ready(pod: Json) -> bool:
    """Whether the pod's Ready condition is true."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _spellings(name: str, namespace: str) -> tuple[str, ...]:
    base = f"{name}.{namespace}"
    return name, base, f"{base}.svc", f"{base}.svc.cluster.local"
