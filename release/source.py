"""The files of a commit, separate from the working tree."""

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from release.stop import ReleaseError

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Source:
    """`time_s`: of the commit, in seconds since 1970. `left_out`: paths that differ in the working tree."""

    folder: Path
    commit: str
    time_s: int
    left_out: tuple[str, ...] = ()


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


@contextmanager
def checked_out() -> Iterator[Source]:
    """The commit of HEAD in a temporary folder. Raises ReleaseError outside a repository."""
    commit = _git("rev-parse", "HEAD").decode().strip()
    time_s = int(_git("log", "-1", "--format=%ct"))
    left_out = tuple(line[3:] for line in _git("status", "--porcelain").decode().splitlines())
    with tempfile.TemporaryDirectory(prefix="metadataquorum-release-") as scratch:
        archive, folder = Path(scratch) / "source.tar", Path(scratch) / "source"
        archive.write_bytes(_git("archive", "--format=tar", commit))
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        yield Source(folder, commit, time_s, left_out)
