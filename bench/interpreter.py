"""Chooses the Python of a benchmark: one that was built with optimizations, in an environment of its own if necessary.

Our image has such a Python (`python:*-slim`, or Debian's package). A build without profile-guided and link-time optimization would
measure another node than the one that is shipped. Owns distinguishing builds, and `.venv-bench`. Must not know the measurements.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ENVIRONMENT = REPOSITORY / ".venv-bench"
PINS = REPOSITORY / "requirements" / "dev.txt"
_FLAGS = ("--enable-optimizations", "--with-lto")
_NAMED = "BENCH_INTERPRETER"
_LOOP_SECONDS = 60

_ASK = """
import json, sys, sysconfig
print(json.dumps({
    "path": sys.executable,
    "version": sys.version.split()[0],
    "configured": sysconfig.get_config_var("CONFIG_ARGS") or "",
    "base": sys.base_prefix,
}))
"""
_LOOP = """
import struct, time
def once():
    start, pack = time.process_time(), struct.Struct(">hiq").pack
    total, parts = 0, []
    for number in range(120_000):
        parts.append(pack(number & 0xFF, number, total))
        total += len(parts[-1]) + (number % 7)
        if number % 64 == 0:
            total ^= len(b"".join(parts))
            parts = [str(number), {number: total}] and []
    return time.process_time() - start
print(min(once() for _ in range(9)))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter. `why`: the evidence for an optimised build, empty if there is none."""

    path: str
    version: str
    why: str


def describe(path: str) -> Interpreter | None:
    """Examine an interpreter; None if it can't be run."""
    try:
        done = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, timeout=20)
        told = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Interpreter(told["path"], told["version"], reason(told["configured"], told["base"]))


def reason(configured: str, base: str) -> str:
    """Why a build with these configure arguments, below this prefix, counts as optimised; empty if it does not."""
    flags = [flag for flag in _FLAGS if flag in configured]
    if flags:
        return f"configured with {' and '.join(flags)}"
    # Distributions set the profile-guided build in their own rules; the configure arguments do not
    # show it.
    return "a distribution's build" if base == "/usr" else ""


def loop_seconds(path: str) -> float:
    """CPU time of a fixed loop with typical codec operations, best of several."""
    done = subprocess.run(
        [path, "-c", _LOOP], capture_output=True, text=True, check=True, timeout=_LOOP_SECONDS
    )
    return float(done.stdout)


def choose(calling: Interpreter, others: list[Interpreter]) -> Interpreter:
    """The running interpreter if it is optimised, else the first optimised one of the same minor version that is not slower."""
    if calling.why:
        return calling
    minor = calling.version.split(".")[:2]
    for other in others:
        if other.why and other.version.split(".")[:2] == minor:
            share = loop_seconds(other.path) / loop_seconds(calling.path)
            if share < 1:
                why = f"{other.why}; a loop of codecs takes {share:.2f} × of the time of the calling {calling.version}"
                return Interpreter(other.path, other.version, why)
    return calling


def installed(minor: str) -> list[Interpreter]:
    """Other interpreters of this machine under the usual names."""
    folders = ["/usr/bin", "/usr/local/bin", *os.get_exec_path()]
    paths = [shutil.which(f"python{minor}", path=folder) for folder in folders]
    found = (describe(path) for path in dict.fromkeys(path for path in paths if path))
    return [each for each in found if each is not None]


def ensure() -> None:
    """Restart in an environment of an optimised interpreter; returns if this is one, or if there is none."""
    if _NAMED in os.environ:
        return
    calling = describe(sys.executable)
    assert calling is not None
    minor = ".".join(calling.version.split(".")[:2])
    chosen = calling if calling.why else choose(calling, installed(minor))
    os.environ[_NAMED] = json.dumps(asdict(chosen))
    if chosen == calling:
        return
    environment(chosen)
    python = str(ENVIRONMENT / "bin" / "python")
    # Scripts find their packages beside the interpreter that runs them.
    os.environ["PATH"] = f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}"
    os.execv(python, [python, *sys.orig_argv[1:]])


def environment(chosen: Interpreter) -> None:
    """Create `.venv-bench` from the same pinned packages if it does not exist."""
    made_of = f"{chosen.path} {chosen.version} {REPOSITORY}".encode() + PINS.read_bytes()
    stamp, wanted = ENVIRONMENT / ".stamp", hashlib.sha256(made_of).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"{ENVIRONMENT.name}: Python {chosen.version}, {chosen.path} ({chosen.why})", flush=True)
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    # Debian's Python has no ensurepip; the pip of this environment installs into the other one.
    subprocess.run([chosen.path, "-m", "venv", "--without-pip", str(ENVIRONMENT)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(ENVIRONMENT / "bin" / "python"), "install"]
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *quiet, "--require-hashes", "-r", str(PINS)], check=True, cwd=REPOSITORY)
    own = ["--no-deps", "--no-build-isolation", "--editable", "."]
    subprocess.run([*pip, *quiet, *own], check=True, cwd=REPOSITORY)
    stamp.write_text(wanted)


def running() -> Interpreter:
    """The interpreter of the benchmark and of our nodes."""
    named = os.environ.get(_NAMED)
    if named is not None:
        return Interpreter(**json.loads(named))
    found = describe(sys.executable)
    assert found is not None
    return found


def sentence(found: Interpreter) -> str:
    """Description for the report."""
    if found.why:
        return f"Python {found.version}, {found.why}"
    return f"Python {found.version}, built without profile and link-time optimisation: our image has a faster one"
