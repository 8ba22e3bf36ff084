"""`make release`: one version everywhere, and bytes that depend on the commit alone."""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from release import archives, bills, checksums, images, packages, versions
from release.source import checked_out
from release.stop import ReleaseError
from support.source_tree import ROOT

TIME_S = 1_700_000_000
NAMED = (
    "pyproject.toml",
    "CHANGELOG.md",
    "helm/metadataquorum/Chart.yaml",
    "manifests/install.yaml",
    "operator/quorum_operator/crd.py",
)


def copied(folder: Path) -> Path:
    """The files that name the version."""
    for name in NAMED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def test_version_is_the_same_everywhere() -> None:
    assert versions.one_version(ROOT)


@pytest.mark.parametrize("name", NAMED[1:])
def test_version_mismatch_is_named(name: str, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace(versions.one_version(ROOT), "9.9.9"))
    with pytest.raises(ReleaseError, match=f"{name} says 9.9.9"):
        versions.one_version(folder)


def layer(names: list[str], *, mtime: int, owner: str) -> bytes:
    """A layer as a builder writes it: in its own order, at its own time."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.mtime, info.uname, info.uid = mtime, owner, 65532
            content = f"content of {name}".encode()
            if name.removeprefix("./") == "var/lib/dpkg/status":
                content = b"Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n\n"
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("a-link")
        link.type, link.linkname, link.mtime = tarfile.LNKTYPE, names[0], mtime
        archive.addfile(link)
    return target.getvalue()


def saved(path: Path, layers: list[bytes], created: str) -> Path:
    """An archive as `docker save` writes it."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {"Entrypoint": ["quorum-node"], "User": "65532:65532"},
        "history": [{"created": created}],
        "rootfs": {"type": "layers", "diff_ids": []},
    }
    files = {f"{n}.tar": data for n, data in enumerate(layers)} | {
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(
            [{"Config": "config.json", "Layers": [f"{n}.tar" for n in range(len(layers))]}]
        ).encode(),
    }
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def made(folder: Path, names: list[str], mtime: int, created: str) -> images.Archive:
    folder.mkdir()
    docker = saved(folder / "saved.tar", [layer(names, mtime=mtime, owner="builder")], created)
    return images.rewritten(docker, "node", "1.2.3", TIME_S, folder)


def test_image_digest_depends_only_on_its_content(tmp_path: Path) -> None:
    names = ["opt/b", "var/lib/dpkg/status", "opt/a"]
    first = made(tmp_path / "1", names, TIME_S + 5, "2026-01-01T00:00:00Z")
    second = made(tmp_path / "2", names[::-1], TIME_S + 99, "2026-02-02T00:00:00Z")
    assert first.path.name == "metadataquorum-node-1.2.3-amd64.oci.tar"
    # The hard link is made to what came first: that one differs.
    third = made(tmp_path / "3", names, TIME_S + 99, "2026-02-02T00:00:00Z")
    assert third.path.read_bytes() == first.path.read_bytes()
    assert third.digest == first.digest != second.digest


def test_image_is_an_oci_layout_with_valid_digests(tmp_path: Path) -> None:
    archive = made(tmp_path / "1", ["opt/b", "var/lib/dpkg/status"], 0, "2026-01-01T00:00:00Z")
    assert archive.debian == {"libc6": "2.36-9"}
    with tarfile.open(archive.path) as packed:
        blobs: dict[str, bytes] = {}
        for info in packed:
            file = packed.extractfile(info)
            assert file is not None
            blobs[info.name] = file.read()
    for name, data in blobs.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == name.rpartition("/")[2]
    assert json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads(blobs["index.json"])["manifests"]
    assert described["annotations"] == {
        "org.opencontainers.image.ref.name": "metadataquorum-node:1.2.3",
        "io.containerd.image.name": "docker.io/library/metadataquorum-node:1.2.3",
    }
    assert described["digest"] == archive.digest

    def blob(of: dict[str, Any]) -> bytes:
        data = blobs["blobs/" + of["digest"].replace(":", "/")]
        assert len(data) == of["size"]
        return data

    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    assert config["config"] == {"Entrypoint": ["quorum-node"], "User": "65532:65532"}
    (packed_layer,) = [blob(each) for each in manifest["layers"]]
    with tarfile.open(fileobj=io.BytesIO(packed_layer)) as files:
        entries = files.getmembers()
        (link,) = [each for each in entries if each.islnk()]
        target = files.extractfile(link)
        assert target is not None
        assert target.read() == b"content of opt/b"
    assert {each.uid for each in entries if each.isreg()} == {65532}, "owners by number stay"
    assert not any(each.uname for each in entries)


@pytest.mark.parametrize("prefix", ["", "./"])
def test_debian_packages_of_an_image_are_found(prefix: str, tmp_path: Path) -> None:
    """The packed trees of some builders have names that begin with "./"."""
    names = [f"{prefix}opt/b", f"{prefix}var/lib/dpkg/status"]
    archive = made(tmp_path / "1", names, 0, "2026-01-01T00:00:00Z")
    assert archive.debian == {"libc6": "2.36-9"}


def test_debian_package_url_is_encoded() -> None:
    component = bills.debian_component("libstdc++6", "1:12.2.0-14+deb12u1")
    assert component["purl"] == "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2.0-14%2Bdeb12u1"
    assert (component["name"], component["version"]) == ("libstdc++6", "1:12.2.0-14+deb12u1")


def test_chart_archive_depends_only_on_its_content(tmp_path: Path) -> None:
    for name, mtime in (("1.tgz", 5), ("2.tgz", 99)):
        data = layer(["chart/values.yaml", "chart/Chart.yaml"], mtime=mtime, owner=name)
        (tmp_path / name).write_bytes(archives.zipped(data))
        archives.repacked(tmp_path / name, TIME_S)
    assert (tmp_path / "1.tgz").read_bytes() == (tmp_path / "2.tgz").read_bytes()


def test_wheel_and_source_archive_depend_only_on_the_commit(tmp_path: Path) -> None:
    """The second build has other file times, and is made elsewhere."""
    for name, mtime in (("first", None), ("second", TIME_S - 99)):
        with checked_out() as source:
            if mtime is not None:
                for path in source.folder.rglob("*"):
                    os.utime(path, (mtime, mtime))
            (tmp_path / name).mkdir()
            packages.build(source, tmp_path / name)
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("first", "second")
    )
    assert sorted(path.rpartition(".")[2] for path in first) == ["gz", "whl"]
    assert first == second


def test_checksums_equal_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"b")
    (tmp_path / "a").write_bytes(b"a")
    checksums.write(tmp_path)
    digests = [hashlib.sha256(each).hexdigest() for each in (b"a", b"b")]
    reported = (tmp_path / checksums.NAME).read_text()
    assert reported == f"{digests[0]}  a\n{digests[1]}  b\n"


def test_chart_and_guides_name_the_images_of_the_release() -> None:
    """A name in a text without an image behind it would be found by the first user."""
    notes = ROOT / "helm/metadataquorum/templates/NOTES.txt"
    texts = [notes, ROOT / "helm/metadataquorum/values.yaml", ROOT / "README.md"]
    texts += (ROOT / "docs").glob("[hrt]*/**/*.md")
    form = re.compile(r"(?:image: |REGISTRY/|repository: )metadataquorum-([a-z]+)")
    named = {file.name: set(form.findall(file.read_text())) for file in texts}
    assert {each for found in named.values() for each in found} == set(images.NAMES)
    for name, expected in (
        ("NOTES.txt", {"node"}),
        ("values.yaml", {"operator", "pipeline"}),
        ("own-cluster.md", {"node", "operator"}),
    ):
        assert named[name] == expected, name
    text = notes.read_text()
    assert "image: metadataquorum-node:{{ .Chart.AppVersion }}" in text
    assert "apiVersion: metadataquorum.dev/v1beta1" in text
