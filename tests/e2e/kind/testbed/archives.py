"""Writes image archives (the form that `docker save` writes and containerd imports) without a daemon.

kubeadm wants seven images. Five of them are one layer, the Kubernetes binary with a link for each
program; the others are one small binary each. See "Docker image specification v1.2" for the form.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Layer:
    """A tar file of a layer and the digest of its content."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] | None = None


def layer_of_file(path: Path, source: Path, target: str, links: Sequence[str] = ()) -> Layer:
    """One executable at `target`, and links to it beside it under other names."""
    with tarfile.open(path, "w") as archive:
        parts = Path(target).parent.parts
        for depth in range(1, len(parts)):
            archive.addfile(_entry("/".join(parts[1 : depth + 1]), tarfile.DIRTYPE))
        for name in links:
            link = _entry(str(Path(target).with_name(name)), tarfile.SYMTYPE)
            link.linkname = Path(target).name
            archive.addfile(link)
        executable = _entry(target, tarfile.REGTYPE)
        executable.size = os.path.getsize(source)
        with open(source, "rb") as file:
            archive.addfile(executable, file)
    return layer_of_tar(path)


def layer_of_tar(path: Path) -> Layer:
    with open(path, "rb") as file:
        return Layer(path, hashlib.file_digest(file, "sha256").hexdigest())


def write(path: Path, images: Sequence[Image], architecture: str) -> None:
    """One archive with all images; a layer that several share is stored once."""
    layers = {layer.digest: layer for image in images for layer in image.layers}
    manifest: list[Mapping[str, object]] = []
    with tarfile.open(path, "w") as archive:
        for digest, layer in layers.items():
            archive.add(layer.path, arcname=f"{digest}.tar", filter=_anonymous)
        for image in images:
            config = json.dumps(_config(image, architecture)).encode()
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add_bytes(archive, config_name, config)
            manifest.append(
                {
                    "Config": config_name,
                    "RepoTags": [image.name],
                    "Layers": [f"{layer.digest}.tar" for layer in image.layers],
                }
            )
        _add_bytes(archive, "manifest.json", json.dumps(manifest).encode())


def _config(image: Image, architecture: str) -> Mapping[str, object]:
    return {
        "architecture": architecture,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "Env": [_SEARCH_PATH],
            "Entrypoint": list(image.entrypoint) if image.entrypoint else None,
            # Without it two images of the same layers would have the same id, hence one name
            "Labels": {"image": image.name},
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{layer.digest}" for layer in image.layers],
        },
    }


def _entry(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name.lstrip("/"))
    info.type = kind
    info.mode = 0o755
    return info


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = _entry(name, tarfile.REGTYPE)
    info.mode = 0o644
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
