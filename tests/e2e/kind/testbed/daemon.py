"""The docker daemon: one that answers is used as it is; where none does, root gets one of our own.

A daemon of ours has its own data root and pid file and listens on docker's default socket, so that
docker and kind find it without being told. `stop_ours` ends only a daemon that was started here.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from testbed import packages
from testbed.commands import TestbedError, run, succeeds
from testbed.places import KIND_DIRECTORY, daemon_directory, daemon_exec_root, exclusive
from testbed.progress import say, step

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0

_started: list[subprocess.Popen[bytes]] = []
"""The daemon that this process started, which outlives it: a collected Popen warns of a running process."""


def has_image(name: str) -> bool:
    """Whether the docker daemon has an image of this name."""
    return succeeds(["docker", "image", "inspect", name], timeout_s=30)


def ensure() -> None:
    """Returns when a docker daemon answers; raises TestbedError with what to do when none can."""
    if answers():
        return
    with exclusive("docker"):
        if answers():
            return
        _explain_if_not_startable()
        packages.need("docker", "dockerd", "iptables")
        # The package starts a daemon itself where systemd runs
        if Path("/run/systemd/system").is_dir():
            run(["systemctl", "start", "docker"], timeout_s=120, check=False)
        if not answers():
            _start()


def answers() -> bool:
    return shutil.which("docker") is not None and succeeds(["docker", "info"], timeout_s=15)


def is_ours() -> bool:
    return _our_pid() is not None


def stop_ours(*, remove_data: bool) -> None:
    """Ends the daemon that `ensure` started, if it runs, and removes its images on request."""
    pid = _our_pid()
    if pid is not None:
        with step("stopping our docker daemon"):
            os.kill(pid, signal.SIGTERM)
            _await_end(pid)
    if remove_data and daemon_directory().exists():
        with step("removing the docker daemon's images"):
            # A daemon that was killed leaves its containers' mounts, network namespaces among them
            for directory in (daemon_directory(), daemon_exec_root()):
                _unmount_below(directory)
            shutil.rmtree(daemon_directory())
            shutil.rmtree(daemon_exec_root(), ignore_errors=True)


def _explain_if_not_startable() -> None:
    if shutil.which("docker") and os.geteuid() != 0:
        output = run(["docker", "info"], timeout_s=15, check=False).stderr.strip().splitlines()
        raise TestbedError(
            "no docker daemon answers: start docker, or join the group `docker`, or run as root.\n"
            + (output[-1] if output else "")
        )
    if sys.platform != "linux" or os.geteuid() != 0:
        raise TestbedError("docker is needed: install it (https://docs.docker.com/engine/install)")


def _start() -> None:
    directory = daemon_directory()
    directory.mkdir(parents=True, exist_ok=True)
    log_path = directory / "dockerd.log"
    dockerd = packages.find("dockerd")
    assert dockerd is not None
    command = [
        dockerd,
        f"--data-root={directory / 'data'}",
        f"--exec-root={daemon_exec_root()}",
        f"--pidfile={directory / 'pid'}",
        f"--add-runtime=bounded={KIND_DIRECTORY / 'host' / 'runc-bounded'}",
        "--default-runtime=bounded",
    ]
    with step("starting a docker daemon", f"log: {log_path}"):
        with open(log_path, "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
            )
        _started.append(process)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-8:])
                raise TestbedError(f"dockerd did not start; the end of {log_path}:\n{tail}")
            time.sleep(0.2)
    say(f"our docker daemon runs as process {process.pid}")


def _our_pid() -> int | None:
    try:
        pid = int((daemon_directory() / "pid").read_text())
        _, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")
    except (OSError, ValueError):
        return None
    name, _, rest = rest.rpartition(")")
    has_ended = rest.split()[0] == "Z"  # whoever started it has not asked for its exit code yet
    return pid if name == "dockerd" and not has_ended else None


def _await_end(pid: int) -> None:
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while _our_pid() == pid:
        if time.monotonic() > deadline:
            raise TestbedError(f"dockerd (process {pid}) does not end")
        time.sleep(0.2)


def _unmount_below(directory: Path) -> None:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((m for m in mounts if m.startswith(f"{directory}/")), reverse=True):
        run(["umount", "-l", point], timeout_s=30, check=False)
