"""The three images as OCI archives, with layers that depend only on their content.

Source: OCI image format specification, "Image Layout", "Image Manifest" and "Image Configuration".
"""

import hashlib
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from release import testbed
from release.archives import Entry, entries_of, packed, zipped
from release.stop import ReleaseError

NAMES = ("node", "operator", "pipeline")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_INDEX = "application/vnd.oci.image.index.v1+json"
_DPKG_STATUS = "var/lib/dpkg/status"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Archive:
    """`digest`: of the manifest, as in image references. `debian`: versions of Debian's packages by name."""

    name: str
    path: Path
    digest: str
    debian: Mapping[str, str]


def archive(name: str, version: str, time_s: int, output: Path) -> Archive:
    """Build an image if it changed, and write its archive. Raises ReleaseError."""
    verb = "pipeline-image" if name == "pipeline" else "images"
    (built,) = [each for each in testbed.ask(verb) if f"metadataquorum-{name}:" in each]
    with tempfile.TemporaryDirectory(prefix="metadataquorum-image-") as scratch:
        saved = Path(scratch) / "saved.tar"
        done = subprocess.run(
            ["docker", "save", "-o", str(saved), built], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ReleaseError(f"docker save {built}: {done.stderr.strip()}")
        return rewritten(saved, name, version, time_s, output)


def rewritten(saved: Path, name: str, version: str, time_s: int, output: Path) -> Archive:
    """The image of a `docker save` archive as an OCI archive."""
    blobs: list[bytes] = []
    layers: list[Json] = []
    diff_ids: list[str] = []
    debian: dict[str, str] = {}
    with tarfile.open(saved) as packed_image:
        (told,) = _json(packed_image, "manifest.json")
        config = _json(packed_image, told["Config"])
        for layer in told["Layers"]:
            content, found = _layer(packed_image, layer, time_s)
            debian = found or debian
            diff_ids.append(_digest(content))
            blobs.append(zipped(content))
            layers.append(_described(_LAYER, blobs[-1]))
    created = datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {key: config[key] for key in ("architecture", "os", "config")}
    blobs.append(
        _bytes(kept | {"created": created, "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _described(_CONFIG, blobs[-1]),
        "layers": layers,
    }
    blobs.append(_bytes(manifest))
    reference = {
        "org.opencontainers.image.ref.name": f"metadataquorum-{name}:{version}",
        # containerd reads the name from this annotation only; without it an imported image has no
        # name.
        "io.containerd.image.name": f"docker.io/library/metadataquorum-{name}:{version}",
    }
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [_described(_MANIFEST, blobs[-1]) | {"annotations": reference}],
    }
    files = {f"blobs/sha256/{_digest(each).partition(':')[2]}": each for each in blobs}
    files |= {"oci-layout": _bytes({"imageLayoutVersion": "1.0.0"}), "index.json": _bytes(index)}
    path = output / f"metadataquorum-{name}-{version}-{config['architecture']}.oci.tar"
    path.write_bytes(packed(_file(each, data) for each, data in files.items()))
    return Archive(name, path, _digest(blobs[-1]), debian)


def _layer(image: tarfile.TarFile, name: str, time_s: int) -> tuple[bytes, dict[str, str]]:
    """A layer in neutral form, and its list of Debian packages."""
    file = image.extractfile(name)
    assert file is not None
    with tarfile.open(fileobj=file) as layer:
        entries = entries_of(layer, time_s)
    # Some builders write names with a leading "./".
    status = next(
        (data for info, data in entries if info.name.removeprefix("./") == _DPKG_STATUS), None
    )
    return packed(entries), _installed(status or b"")


def _installed(status: bytes) -> dict[str, str]:
    """Packages in a file of dpkg (Debian Policy, "Control files and their fields")."""
    found = {}
    for paragraph in status.decode(errors="replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.split("\n") if ": " in line)
        if "Package" in fields and "Version" in fields:
            found[fields["Package"]] = fields["Version"]
    return found


def _json(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    assert file is not None
    return json.load(file)


def _file(name: str, data: bytes) -> Entry:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def _bytes(document: Json) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _described(media_type: str, data: bytes) -> Json:
    return cast(Json, {"mediaType": media_type, "digest": _digest(data), "size": len(data)})
