"""The real operator as a process, with all its calls through a recording proxy.

Owns start, kill and the log. The kubeconfig of the operator names the proxy; the standard proxy variables also send its
calls to nodes there.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from support.warm_process import WarmProcess, WarmStart

_MODULE = "quorum_operator"
_STOP_TIMEOUT_S = 20.0


def kubeconfig(port: int) -> str:
    """A kubeconfig whose API server is the proxy on `port`."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "harness",
            "contexts": [{"name": "harness", "context": {"cluster": "harness", "user": "harness"}}],
            "clusters": [{"name": "harness", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "harness", "user": {}}],
        }
    )


class OperatorProcess:
    """One operator. `start` after `kill` is a restart with the same log file, appended.

    `warm`: it begins as a copy of a process that has loaded its code. `access`: a kubeconfig instead of the proxy's.
    """

    def __init__(
        self,
        folder: Path,
        proxy_port: int,
        namespace: str,
        settings: Mapping[str, str],
        *,
        warm: bool = False,
        access: str | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / "operator.log"
        self.starts = 0
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(kubeconfig(proxy_port) if access is None else access)
        self._proxy = f"http://127.0.0.1:{proxy_port}"
        self._namespace = namespace
        self._settings = dict(settings)
        self._folder = folder
        self._warm = warm
        self._process: subprocess.Popen[bytes] | WarmProcess | None = None

    def start(self) -> None:
        """Start it; does not wait until it has read the cluster."""
        assert self._process is None or self._process.poll() is not None
        with open(self.log_path, "ab") as log:
            log.write(f"--- start {self.starts}\n".encode())
        self._process = self._copied() if self._warm else self._executed()
        self.starts += 1

    def _copied(self) -> WarmProcess:
        start = WarmStart(_MODULE, (), self.log_path, self._environment(), self._folder)
        return WarmProcess(start)

    def _executed(self) -> subprocess.Popen[bytes]:
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", _MODULE],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self._folder,
            )

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def send(self, number: signal.Signals) -> None:
        """A signal to the running process."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def process_id(self) -> int:
        """Id of the running or the last process."""
        assert self._process is not None
        return self._process.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _environment(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        return {
            **kept,
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._kubeconfig),
            "HTTP_PROXY": self._proxy,
            "http_proxy": self._proxy,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "WATCH_NAMESPACE": self._namespace,
            **self._settings,
        }
