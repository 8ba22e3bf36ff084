"""A class data sharing archive of Spark's classes for the JVM.

Finding, reading and verifying about ten thousand classes in 280 jars is more than half of Spark's start time.
`quorum-pipeline prepare` writes them once to a file of 160 MB that later runs map. The JVM checks that the file was
made by the same JVM from the same jars, and ignores it otherwise. The directory is METADATAQUORUM_CACHE, or
~/.cache/metadataquorum. Source: JEP 350 (dynamic archives).
"""

import os
import shutil
from hashlib import sha256
from pathlib import Path

# Suppresses the JVM's warnings about classes that it can't archive and files that it can't use.
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"


def cache_directory() -> Path:
    """Return the directory of files that can be created again."""
    named = os.environ.get("METADATAQUORUM_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "metadataquorum"


def classes_file(jars: Path) -> Path | None:
    """Return the archive file for the JVM that would be started now with these jars; None if there is no JVM."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        return None
    resolved = Path(java).resolve()
    made_from = f"{resolved} {int(resolved.stat().st_mtime)} {jars}"
    name = sha256(made_from.encode()).hexdigest()[:16]
    return cache_directory() / "spark-classes" / f"{name}.jsa"


def options_to_use(file: Path | None) -> str:
    """Return options of a JVM that loads its classes from the file; none if the file does not exist."""
    if file is None or not file.is_file():
        return ""
    return f"-Xshare:auto -XX:SharedArchiveFile={file} {_QUIET}"


def options_to_make(file: Path) -> str:
    """Return options of a JVM that writes its classes to the file when it ends. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    return f"-XX:ArchiveClassesAtExit={file} {_QUIET}"
