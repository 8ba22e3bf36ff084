"""kube-apiserver, etcd and kube-controller-manager alone, on loopback: for tests that need the API
and no pods.

    with ControlPlane() as running:
        client = make_client(running.kubeconfig)

Ready in a few seconds, in a fresh directory on free ports, and gone without a trace afterwards. When
the test's process is killed the servers end with it, and the next start removes its directory.
StatefulSets get their Pod objects here, but nothing runs in them.
"""

import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed import programs
from testbed.commands import TestbedError, run
from testbed.pins import KUBERNETES_VERSION

DEFAULT_CONTROLLERS = (
    "*",
    "-node-lifecycle-controller",
    "-taint-eviction-controller",
    "-endpoints-controller",
    "-endpointslice-controller",
    "-endpointslice-mirroring-controller",
)
"""Without the two that would evict pods from Node objects behind which there is no kubelet. Pods whose processes are on this machine
have loopback addresses, which the API server refuses in endpoints: those controllers would try again and again, and make up half of its load."""

_DIRECTORY_PREFIX = "metadataquorum-api-"
_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.05
_ATTEMPTS = 3


class ControlPlane:
    """A context manager; attributes are valid inside it."""

    kubeconfig: Path
    """Of a cluster administrator (group system:masters), by bearer token."""

    url: str
    token: str
    ca_file: Path

    def __init__(
        self,
        *,
        controllers: Sequence[str] = DEFAULT_CONTROLLERS,
        controller_calls_per_s: int | None = None,
        minor: str | None = None,
    ) -> None:
        """`minor`: the API server and the controllers are of this minor version of Kubernetes, one of NEWER_KUBERNETES, instead of
        KUBERNETES_VERSION. `controllers` as kube-controller-manager takes them; none at all for an empty sequence:
        then nothing makes pods, service accounts or deletes what lost its owner.
        `controller_calls_per_s`: each controller's limit of calls instead of the usual one (20)."""
        self._controllers = tuple(controllers)
        self._controller_calls_per_s = controller_calls_per_s
        self._minor = minor
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def process_ids(self) -> dict[str, int]:
        """By program: kube-apiserver, etcd, kube-controller-manager."""
        return {program: process.pid for program, process in self._processes.items()}

    def __enter__(self) -> Self:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start()
            except _PortTaken:
                self._stop()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                self._stop()
                raise
            else:
                return self
        raise AssertionError("not reached")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def get(self, path: str, *, timeout_s: float = 10.0) -> bytes:
        """The body of `GET path`; raises urllib.error.URLError, HTTPError among them."""
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {self.token}"}
        )
        context = ssl.create_default_context(cafile=str(self.ca_file))
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with direct.open(request, timeout=timeout_s) as response:
            body: bytes = response.read()
        return body

    def stop_api_server(self) -> None:
        """Ends it at once, without closing connections gracefully."""
        process = self._processes["kube-apiserver"]
        process.kill()
        process.wait(_STOP_TIMEOUT_S)

    def start_api_server(self) -> None:
        """Begins it again under the same address, and returns when it is ready."""
        self._start_api_server(*self._ports)
        self._await("the API server", self._api_server_is_ready)

    def wait(self) -> None:
        """Returns when one of the processes has ended."""
        while all(process.poll() is None for process in self._processes.values()):
            time.sleep(0.5)

    def _start(self) -> None:
        programs.kubernetes()
        _remove_abandoned()
        self._directory = Path(tempfile.mkdtemp(prefix=f"{_DIRECTORY_PREFIX}{os.getpid()}-"))
        self.token = secrets.token_hex(16)
        self.ca_file = self._directory / "apiserver.crt"
        self.kubeconfig = self._directory / "kubeconfig"
        etcd_port, peer_port, api_port = _free_ports(3)
        self._ports = etcd_port, api_port
        self.url = f"https://127.0.0.1:{api_port}"
        self._write_keys()
        self._start_etcd(etcd_port, peer_port)
        self._start_api_server(etcd_port, api_port)
        self._await("the API server", self._api_server_is_ready)
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()))
        if self._controllers:
            self._start_controller_manager()
            self._await("the controllers", self._controllers_work)

    def _write_keys(self) -> None:
        """The key that signs service account tokens, and the administrator's own token."""
        config = self._directory / "kubeadm.json"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "kubeadm.k8s.io/v1beta4",
                    "kind": "ClusterConfiguration",
                    # Named, because kubeadm would else ask the internet for it
                    "kubernetesVersion": KUBERNETES_VERSION,
                    "certificatesDir": str(self._directory),
                }
            )
        )
        kubeadm = programs.called_as("kubeadm")
        run([kubeadm, "init", "phase", "certs", "sa", "--config", config], timeout_s=30)
        (self._directory / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")

    def _start_etcd(self, port: int, peer_port: int) -> None:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        self._run(
            "etcd",
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _start_api_server(self, etcd_port: int, port: int) -> None:
        key = self._directory / "sa.key"
        disabled = "" if self._controllers else "ServiceAccount"
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--cert-dir={self._directory}",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={self._directory / 'sa.pub'}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--profiling=false",
            *([f"--disable-admission-plugins={disabled}"] if disabled else []),
        )

    def _start_controller_manager(self) -> None:
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(self._controllers)}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={self._directory / 'sa.key'}",
            f"--root-ca-file={self.ca_file}",
            *(
                []
                if self._controller_calls_per_s is None
                else [
                    f"--kube-api-qps={self._controller_calls_per_s}",
                    f"--kube-api-burst={2 * self._controller_calls_per_s}",
                ]
            ),
        )

    def _run(self, program: str, *arguments: str) -> None:
        minor = None if program == "etcd" else self._minor
        command = [str(programs.called_as(program, minor)), *arguments]
        setpriv = shutil.which("setpriv")
        if setpriv:  # ends it with this process, however this one ends
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with open(self._log(program), "wb") as log:
            self._processes[program] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the test, which then stops these in order
                cwd=self._directory,
                # Fewer collections of garbage: they are a fifth of the API server's CPU.
                env={**os.environ, "GOMEMLIMIT": "512MiB", "GOGC": "300"},
            )

    def _log(self, program: str) -> Path:
        return self._directory / f"{program}.log"

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not holds():
            for program, process in self._processes.items():
                if process.poll() is not None:
                    self._explain_end(program)
            if time.monotonic() > deadline:
                raise TestbedError(f"{what} did not get ready in {_READY_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)

    def _explain_end(self, program: str) -> None:
        text = self._log(program).read_text(errors="replace")
        tail = "\n".join(text.splitlines()[-10:])
        message = f"{program} ended; the end of its log:\n{tail}"
        raise (_PortTaken if "address already in use" in text else TestbedError)(message)

    def _api_server_is_ready(self) -> bool:
        if not self.ca_file.exists():
            return False
        try:
            return self.get("/readyz", timeout_s=2) == b"ok"
        except (OSError, ssl.SSLError):  # not listening yet, or half a certificate file
            return False

    def _controllers_work(self) -> bool:
        if not {"*", "serviceaccount-controller"}.intersection(self._controllers):
            return True
        try:
            self.get("/api/v1/namespaces/default/serviceaccounts/default", timeout_s=2)
        except urllib.error.HTTPError as missing:
            if missing.code != 404:
                raise
            return False
        return True

    def _kubeconfig(self) -> dict[str, object]:
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "api", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "api", "context": {"cluster": "api", "user": "admin"}}],
            "current-context": "api",
        }

    def _stop(self) -> None:
        """In reverse order, so that no component waits for one that has already ended."""
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_TIMEOUT_S)
        self._processes.clear()
        if hasattr(self, "_directory"):
            shutil.rmtree(self._directory, ignore_errors=True)


class _PortTaken(TestbedError):
    """Another process took the port between the choice of a free one and its use."""


def _remove_abandoned() -> None:
    """Directories of processes that were killed before they could remove them."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_DIRECTORY_PREFIX}*-*"):
        owner = directory.name.removeprefix(_DIRECTORY_PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            shutil.rmtree(directory, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
