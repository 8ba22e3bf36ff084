"""Checks that all files contain the same version."""

import re
import tomllib
from pathlib import Path

from release.stop import ReleaseError

_PLACES = {
    "helm/metadataquorum/Chart.yaml": (r"^version: (\S+)$", r'^appVersion: "(\S+)"$'),
    "manifests/install.yaml": (
        r"image: metadataquorum-operator:(\S+)$",
        r"default: metadataquorum-node:(\S+)$",
    ),
    "operator/quorum_operator/crd.py": (r'^NODE_IMAGE = "metadataquorum-node:(\S+)"$',),
    "CHANGELOG.md": (r"^## (\S+)",),
}
"""Path and patterns; the first match of each has to be the version of pyproject.toml."""


def one_version(folder: Path) -> str:
    """The version of this tree. Raises ReleaseError with every place that has another one."""
    version = str(tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"])
    others = []
    for name, patterns in _PLACES.items():
        text = (folder / name).read_text() if (folder / name).exists() else ""
        for pattern in patterns:
            found = re.search(pattern, text, re.MULTILINE)
            told = found.group(1) if found else "none"
            if told != version:
                others.append(f"{name} says {told}")
    if others:
        raise ReleaseError(f"pyproject.toml says {version}, but {', '.join(others)}")
    return version
