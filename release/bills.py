"""Bills of materials in CycloneDX format: the packages of each image, with their verified hashes.

cyclonedx-py reads the pinned requirement files; Debian's packages are read from the image. Every file is validated against
the schema of the format.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from release.images import NAMES, Archive
from release.source import ROOT, Source
from release.stop import ReleaseError

_ENVIRONMENT = ROOT / "build" / "release-environment"
_VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(None if found is None else str(found))
"""


def build(source: Source, output: Path, version: str, images: Sequence[Archive]) -> None:
    """One file per image. Raises ReleaseError."""
    program = _program()
    debian = {each.name: each.debian for each in images}
    for name in NAMES:
        command = [str(program), "requirements", "--output-reproducible", "--of", "JSON"]
        command += ["--sv", "1.6", "--pyproject", str(source.folder / "pyproject.toml")]
        command += [str(source.folder / "requirements" / f"{name}.txt")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ReleaseError(f"cyclonedx-py: {done.stderr.strip()}")
        bill = json.loads(done.stdout)
        bill["components"] += [
            debian_component(*each) for each in sorted(debian.get(name, {}).items())
        ]
        path = output / f"metadataquorum-{name}-{version}.cdx.json"
        text = json.dumps(bill, indent=1, sort_keys=True) + "\n"
        validate(text, path.name)
        path.write_text(text)


def validate(text: str, name: str) -> None:
    """Raises ReleaseError if the text is no valid document of CycloneDX 1.6. `name`: of the file, for the message."""
    _program()
    done = subprocess.run(
        [str(_ENVIRONMENT / "bin" / "python"), "-c", _VALIDATE],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseError(f"{name}: {done.stderr.strip()}")


def debian_component(name: str, version: str) -> dict[str, Any]:
    """The entry of a Debian package, with its package URL (purl specification, type `deb`)."""
    reference = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}"
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": reference,
        "bom-ref": reference,
    }


def _program() -> Path:
    """cyclonedx-py in its own environment, created once from pinned packages."""
    program = _ENVIRONMENT / "bin" / "cyclonedx-py"
    if not program.exists():
        python = str(_ENVIRONMENT / "bin" / "python")
        pinned = str(ROOT / "requirements" / "release.txt")
        for command in (
            [sys.executable, "-m", "venv", str(_ENVIRONMENT)],
            [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", pinned],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ReleaseError(f"an environment for cyclonedx-py: {done.stderr.strip()}")
    return program
