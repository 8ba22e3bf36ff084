"""What decides a history besides its seed: the modules that the simulation imports, and what runs them.

Owns the digest over them, by which finished histories are kept (`ledger.py`), and the commit that they are of. Must not
know what the modules do. A fresh interpreter is asked which ones they are: this one may have imported others.
"""

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_DIGITS = 16
_COMMIT_DIGITS = 10
_TELL = """
import json, sys
from importlib import import_module
from importlib.metadata import packages_distributions, version
import_module(sys.argv[1])
own = {"quorum_node", "quorum_simulation"}
names = {name.partition(".")[0] for name in sys.modules}
dists = packages_distributions()
others = {dist for name in names - own for dist in dists.get(name, ())}
files = {
    name: module.__file__
    for name, module in sys.modules.items()
    if name.partition(".")[0] in own and module.__file__
}
print(json.dumps({"files": files, "versions": {name: version(name) for name in others}}))
"""


@dataclass(frozen=True, slots=True)
class Sources:
    """`digest`: equal where a seed plays the same history. `commit`: as git names it, "+" behind it if the files differ."""

    digest: str
    commit: str
    python: str
    modules: tuple[str, ...]


def present_sources(entry: str = "quorum_simulation.story") -> Sources:
    """`entry`, a module that plays histories, and what it imports now. Raises CalledProcessError if they can't be imported."""
    command = [sys.executable, "-c", _TELL, entry]
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    files = {name: Path(file) for name, file in told["files"].items()}
    return Sources(
        digest_of(files, told["versions"]),
        _commit(sorted(files.values())),
        sys.version.split()[0],
        tuple(sorted(files)),
    )


def digest_of(files: dict[str, Path], versions: dict[str, str]) -> str:
    """Over the contents of modules by name, the versions of packages, and the interpreter's."""
    total = hashlib.sha256(f"{sys.implementation.name} {sys.version}\n".encode())
    for name, file in sorted(files.items()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"{name} {content}\n".encode())
    for name, version in sorted(versions.items()):
        total.update(f"{name}=={version}\n".encode())
    return total.hexdigest()[:_DIGITS]


def _commit(files: list[Path]) -> str:
    """Empty where there is no git. What else differs from the commit plays no part."""
    root = files[0].parent
    commit = _git(root, "rev-parse", f"--short={_COMMIT_DIGITS}", "HEAD")
    if commit and _git(root, "status", "--porcelain", "--", *map(str, files)):
        return f"{commit}+"
    return commit


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
