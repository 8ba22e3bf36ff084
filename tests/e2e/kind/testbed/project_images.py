"""The project's images: wheels are made outside, where package indexes can be reached, and
installed inside, where nothing can. The pipeline's, with Spark and Java in it, is large and built
only when it is asked for.

An image is tagged `dev` and with a hash of everything it is made of; while that hash stands in the
daemon nothing is built again.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed import daemon, debian, fingerprint, node_image
from testbed.commands import TestbedError, run, succeeds
from testbed.pins import JAVA_BASE_IMAGE, PYTHON_BASE_IMAGE
from testbed.places import REPOSITORY, cache_directory, exclusive
from testbed.progress import say, step

_PLATFORMS = (
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_26",
    "manylinux_2_24",
    "manylinux_2_17",
    "manylinux2014",
    "manylinux_2_12",
    "manylinux_2_5",
)
_PIP = "pip==25.3"
_AS_SOURCE = "pyspark"
"""There are no wheels of it, and nothing in it is compiled."""
_BASE_CHOICE = "METADATAQUORUM_PYTHON_IMAGE"
_JAVA_CHOICE = "METADATAQUORUM_JAVA_IMAGE"


@dataclass(frozen=True, slots=True)
class ProjectImage:
    """One of our images: `extra` names it and the part of the distribution that it installs."""

    extra: str
    dockerfile: Path
    folders: tuple[str, ...] = ("operator/quorum_operator", "node/quorum_node")
    more_extras: tuple[str, ...] = ()

    @property
    def extras(self) -> str:
        return ",".join((self.extra, *self.more_extras))

    @property
    def repository(self) -> str:
        return f"metadataquorum-{self.extra}"

    @property
    def name(self) -> str:
        return f"{self.repository}:dev"

    @property
    def requirements(self) -> Path:
        return REPOSITORY / "requirements" / f"{self.extra}.txt"


NODE = ProjectImage("node", REPOSITORY / "node" / "Dockerfile", more_extras=("object-store",))
OPERATOR = ProjectImage("operator", REPOSITORY / "operator" / "Dockerfile")
PIPELINE = ProjectImage(
    "pipeline",
    REPOSITORY / "pipeline" / "Dockerfile",
    ("node/quorum_node", "pipeline/quorum_pipeline"),
)


def build_all() -> tuple[str, ...]:
    """Builds both small images where they changed; returns their names."""
    base = python_base()
    for image in (NODE, OPERATOR):
        _ensure(image, {"BASE": base})
    return (NODE.name, OPERATOR.name)


def build_pipeline() -> str:
    """Builds the pipeline's image where it changed; returns its name."""
    _ensure(PIPELINE, _bases_with_java())
    return PIPELINE.name


def python_base() -> str:
    """The official Python image where it can be had, else Debian's own Python on a minimal tree."""
    named = os.environ.get(_BASE_CHOICE)
    if named:
        return named
    if daemon.has_image(PYTHON_BASE_IMAGE):
        return PYTHON_BASE_IMAGE
    if daemon.has_image(debian.PYTHON.image):
        return debian.PYTHON.image
    return _pulled(PYTHON_BASE_IMAGE) or debian.image(debian.PYTHON)


def _bases_with_java() -> dict[str, str]:
    """Python and, to be copied from, Java; one Debian tree has both where neither can be pulled."""
    java = os.environ.get(_JAVA_CHOICE)
    if java is None and daemon.has_image(JAVA_BASE_IMAGE):
        java = JAVA_BASE_IMAGE
    java = java or _pulled(JAVA_BASE_IMAGE)
    if java is not None:
        return {"BASE": python_base(), "JAVA": java}
    both = debian.image(debian.PIPELINE)
    return {"BASE": both, "JAVA": both}


def _pulled(image: str) -> str | None:
    """None where no registry can be reached, or none shall be."""
    if os.environ.get("METADATAQUORUM_NODE_IMAGE") == "build" or not node_image.registry_answers():
        return None
    with step(f"pulling {image}"):
        run(["docker", "pull", "-q", image], timeout_s=300)
    return image


def _ensure(image: ProjectImage, bases: Mapping[str, str]) -> None:
    """The tag with the hash says what `dev` was made of; a known hash only moves `dev`."""
    base_ids = run(["docker", "image", "inspect", "-f", "{{.Id}}", *bases.values()], timeout_s=30)
    with (
        exclusive(f"image-{image.extra}"),
        tempfile.TemporaryDirectory(prefix="metadataquorum-image-") as scratch,
    ):
        # Hashed and built from one copy, because the checkout may change meanwhile
        source = Path(scratch) / "source"
        _copy_own_sources(image, source)
        key = fingerprint.of(
            base_ids.stdout,
            _PIP,
            image.extra,
            paths=[image.dockerfile, image.requirements, source],
        )
        exact = f"{image.repository}:{key}"
        if not daemon.has_image(exact):
            wheels = _downloaded_wheels(image)
            with step(f"building {exact}"):
                _build(image, bases, exact, wheels, Path(scratch))
            _remove_older_tags(image, exact)
        run(["docker", "tag", exact, image.name], timeout_s=30)
    say(f"{image.name} is {exact}")


def _copy_own_sources(image: ProjectImage, target: Path) -> None:
    for folder in image.folders:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / folder, target / folder, ignore=ignore)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / file, target)


def _downloaded_wheels(image: ProjectImage) -> Path:
    """Everything in the requirement file, for the Python of the image, checked against its hashes."""
    text = image.requirements.read_text()
    machine = os.uname().machine
    key = fingerprint.of(text, _PIP, machine, *_PLATFORMS)
    target = cache_directory() / "wheels" / f"{image.extra}-{key}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{image.extra}.", dir=target.parent))
    platforms = [f"--platform={name}_{machine}" for name in _PLATFORMS]
    target_python = ["--only-binary=:all:", "--implementation=cp", "--python-version=3.11"]
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(scratch)]
    try:
        with step(f"downloading the packages of {image.requirements.name}", "pip download"):
            options = [*target_python, *platforms, "--require-hashes"]
            options += [f"--no-binary={_AS_SOURCE}", *_isolation("setuptools")]
            run([*download, *options, "-r", image.requirements], timeout_s=600)
            run([*download, "--only-binary=:all:", _PIP], timeout_s=300)
        for archive in scratch.glob("*.tar.gz"):
            with step(f"building the wheel of {archive.name}"):
                _wheel(archive, scratch, "setuptools")
                archive.unlink()
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _build(
    image: ProjectImage, bases: Mapping[str, str], exact: str, wheels: Path, scratch: Path
) -> None:
    context = scratch / "context"
    # Hard links where they can be: Spark is large
    shutil.copytree(wheels, context / "wheels", copy_function=_linked)
    (context / "own").mkdir()
    try:
        _wheel(scratch / "source", context / "own", "hatchling")
    except TestbedError as failure:
        raise TestbedError(f"the project's wheel cannot be built: {failure}") from None
    build = ["docker", "build", "-q", "-f", str(image.dockerfile)]
    for name, base in bases.items():
        build += ["--build-arg", f"{name}={base}"]
    # A tag keeps the stage with the packages, which would else be cleared away with the other one
    packages = f"{image.repository}-packages:dev"
    stage = ["--target", "packages", "-t", packages, "."]
    run([*build, *stage], timeout_s=900, directory=context)
    extra = ["--build-arg", f"EXTRA={image.extras}"]
    run([*build, *extra, "-t", exact, "."], timeout_s=900, directory=context)


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _wheel(source: Path, target: Path, backend: str) -> None:
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(target)]
    run([*wheel, *_isolation(backend), source], timeout_s=600)


def _isolation(backend: str) -> list[str]:
    """Nothing is downloaded to build a wheel with where it is here already."""
    if succeeds([sys.executable, "-c", f"import {backend}"], timeout_s=30):
        return ["--no-build-isolation"]
    return []


def _remove_older_tags(image: ProjectImage, exact: str) -> None:
    """Build stages and images of earlier sources would fill the disk, one per edit."""
    stage = ["--filter", "label=dev.metadataquorum.stage=own"]
    run(["docker", "image", "prune", "-f", *stage], timeout_s=120, check=False)
    listing = ["docker", "images", image.repository, "--format", "{{.Repository}}:{{.Tag}}"]
    for name in run(listing, timeout_s=30).stdout.split():
        if name not in (exact, image.name):
            run(["docker", "rmi", name], timeout_s=60, check=False)
