"""Images of registries that ours are built on are named with their digest: the same commit has the same base everywhere."""

import re
from pathlib import Path

import pytest

from support.kind_env.testbed import JAVA_BASE_IMAGE, PYTHON_BASE_IMAGE
from support.source_tree import ROOT

BASE_IMAGES = (PYTHON_BASE_IMAGE, JAVA_BASE_IMAGE)
DOCKERFILES = tuple(
    ROOT / name / "Dockerfile" for name in ("node", "operator", "pipeline", "examples/kafka")
)
_DIGEST = re.compile(r"[a-z-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}")
_STAGE = re.compile(r"^FROM (\S+)(?: AS (\S+))?", re.MULTILINE)
_ARGUMENT = re.compile(r"^ARG (\w+)=(\S+)$", re.MULTILINE)


def test_pulled_base_images_have_a_digest() -> None:
    assert [each for each in BASE_IMAGES if not _DIGEST.fullmatch(each)] == []


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_dockerfile_builds_on_the_same_images(dockerfile: Path) -> None:
    """Every stage is made from an argument, whose default is one of those images, or from an earlier stage."""
    text = dockerfile.read_text()
    defaults = dict(_ARGUMENT.findall(text))
    stages = _STAGE.findall(text)
    earlier = {name for _, name in stages if name}
    from_outside = {image for image, _ in stages if image not in earlier}
    assert from_outside
    for image in from_outside:
        assert defaults[image.removeprefix("${").removesuffix("}")] in BASE_IMAGES, image
