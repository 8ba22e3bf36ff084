"""Names of cached files, derived from their inputs: the same inputs give the same name, on any machine."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

_SKIPPED_DIRECTORIES = {"__pycache__"}
_LENGTH = 12


def of(*texts: str, paths: Iterable[Path] = ()) -> str:
    """Hash over the texts and over name, executable bit and content of every file under the paths."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(b"text\0" + text.encode() + b"\0")
    for path in paths:
        for file in _files(path):
            name = file.relative_to(path).as_posix() if file != path else file.name
            executable = b"x" if file.stat().st_mode & 0o100 else b"-"
            content = hashlib.sha256(file.read_bytes()).digest()
            digest.update(b"file\0" + name.encode() + b"\0" + executable + content)
    return digest.hexdigest()[:_LENGTH]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(path)
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not _SKIPPED_DIRECTORIES.intersection(file.parts)
    )
