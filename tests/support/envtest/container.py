"""One container of a pod: a real process, restarted when it ends, and its status.

Owns the process and the containerStatus. The order of states is that of a kubelet; the backoff is shortened, so that a
test takes seconds. Must not know the API server.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from support import warm_process
from support.envtest.kube_api import Json
from support.envtest.probes import Probes
from support.warm_process import WarmStart

_FIRST_BACKOFF_S = 0.2
_LAST_BACKOFF_S = 3.0


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of one run of the container."""

    command: Sequence[str]
    environment: Mapping[str, str]


class Process(Protocol):
    """The used part of `asyncio.subprocess.Process`."""

    pid: int

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...

    def send_signal(self, signal: signal.Signals, /) -> None: ...

    def kill(self) -> None: ...


class Container:
    """Runs until `stop`. `changed` is called after each change of `status()`."""

    def __init__(
        self,
        spec: Json,
        address: str,
        folder: Path,
        prepare: Callable[[Path], Launch | WarmStart],
        changed: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.log_path = folder / "log"
        self.message_path = folder / "termination-message"
        self.ready = False
        self.process_id: int | None = None
        self.restart_count = 0
        self._address = address
        self._folder = folder
        self._prepare = prepare
        self._changed = changed
        self._state: Json = {"waiting": {"reason": "ContainerCreating"}}
        self._last_state: Json = {}
        self._process: Process | None = None
        self._stopped = asyncio.Event()

    def status(self) -> Json:
        """The containerStatus of the pod's status."""
        return {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": f"harness://{self.spec['image']}",
            "containerID": f"harness://{self.process_id}",
            "state": self._state,
            "lastState": self._last_state,
            "ready": self.ready,
            "started": "running" in self._state,
            "restartCount": self.restart_count,
        }

    async def run(self) -> None:
        """Start the process, and restart it after each end (restartPolicy Always), until `stop`."""
        backoff_s = _FIRST_BACKOFF_S
        while True:
            await self._run_once()
            await self._pause(_FIRST_BACKOFF_S)
            if self._stopped.is_set():
                return
            waiting = {"reason": "CrashLoopBackOff", "message": f"back-off {backoff_s:.1f}s"}
            self._last_state, self._state = self._state, {"waiting": waiting}
            self._changed()
            await self._pause(backoff_s)
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)
            if self._stopped.is_set():
                return
            self.restart_count += 1

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after `grace_s`. Returns when the process has ended."""
        self._stopped.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM if grace_s > 0 else signal.SIGKILL)
        try:
            async with asyncio.timeout(max(grace_s, 1.0)):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False if no process runs."""
        if self._process is None or self._process.returncode is not None:
            return False
        self._process.send_signal(number)
        return True

    async def _pause(self, seconds: float) -> None:
        """Wait; ends early when the container is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    async def _run_once(self) -> None:
        root = self._folder / f"root-{self.restart_count}"
        root.mkdir(parents=True)
        self.message_path.write_text("")
        launch = self._prepare(root)
        started_at = now_text()
        if isinstance(launch, WarmStart):
            self._process = await warm_process.started(launch)
        else:
            self._process = await self._executed(launch)
        self.process_id = self._process.pid
        self._state = {"running": {"startedAt": started_at}}
        self._changed()
        code = await self._ended_under_probes(self._process)
        self.ready = False
        self._state = {"terminated": self._ended(code, started_at)}
        self._changed()

    async def _executed(self, launch: Launch) -> Process:
        with self._open_log() as log:
            return await asyncio.create_subprocess_exec(
                *launch.command,
                env=dict(launch.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def _ended_under_probes(self, process: Process) -> int:
        """The exit status. A process that is alive when this is cancelled is killed."""
        probes = Probes(self.spec, self._address, self._set_ready, process.kill)
        probing = asyncio.create_task(probes.run())
        try:
            code = await process.wait()
            probes.ended.set()
            # The address answers nothing any more, so that a probe in progress ends.
            await probing
        finally:
            probing.cancel()
            if process.returncode is None:
                process.kill()
        return code

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self._changed()

    def _open_log(self) -> BinaryIO:
        return open(self.log_path, "ab")

    def _ended(self, code: int, started_at: str) -> Json:
        """A signal n is exit code 128 + n; an empty message falls back to the log if asked for."""
        exit_code = 128 - code if code < 0 else code
        message = self.message_path.read_text(errors="replace")
        fall_back = self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not message and fall_back and exit_code:
            message = self.log_path.read_text(errors="replace")[-2048:]
        ended: Json = {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "startedAt": started_at,
            "finishedAt": now_text(),
            "containerID": f"harness://{self.process_id}",
        }
        return ended | ({"message": message} if message else {})
