"""Archives whose content does not depend on the time and place of their creation."""

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

Entry = tuple[tarfile.TarInfo, bytes | None]


def neutral(info: tarfile.TarInfo, time_s: int) -> tarfile.TarInfo:
    """The entry without owner names and with times limited to `time_s`. Numeric owners are kept: images need them."""
    info.uname = info.gname = ""
    info.mtime = min(int(info.mtime), time_s)
    info.pax_headers = {
        key: value
        for key, value in info.pax_headers.items()
        if key not in ("mtime", "atime", "ctime")
    }
    return info


def packed(entries: Iterable[Entry]) -> bytes:
    """A tar archive of the entries, sorted by name; a hard link comes after its target."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in sorted(entries, key=lambda each: (each[0].islnk(), each[0].name)):
            archive.addfile(info, None if data is None else io.BytesIO(data))
    return target.getvalue()


def zipped(data: bytes) -> bytes:
    """gzip without time and name."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def entries_of(archive: tarfile.TarFile, time_s: int) -> list[Entry]:
    """All entries with their content, in neutral form."""
    found: list[Entry] = []
    for info in archive:
        file = archive.extractfile(info) if info.isreg() else None
        found.append((neutral(info, time_s), None if file is None else file.read()))
    return found


def repacked(path: Path, time_s: int) -> None:
    """Rewrite a .tar.gz so that it depends only on its content."""
    with tarfile.open(path) as archive:
        found = entries_of(archive, 0)
    for info, _ in found:
        info.uid = info.gid = 0
        info.mtime = time_s
    path.write_bytes(zipped(packed(found)))
