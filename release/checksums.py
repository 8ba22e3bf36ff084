"""SHA256SUMS in the format of `sha256sum --check`."""

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def write(folder: Path) -> None:
    """Write the checksums of all files in the folder."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name == NAME:
            continue
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (folder / NAME).write_text("".join(lines))
