"""etcd, for comparison: three members with default settings, driven by etcd's own Go client, in clear text or with mutual TLS.

Server and driver (bench/etcdload) are built once with Go, in the version that go.mod and go.sum pin, and are cached outside the
checkout.
"""

import base64
import hashlib
import json
import os
import re
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from certificates import Certificates
from contender import BENCH, MEMBERS, Cluster

from support.stock_kafka import cache_directory

SOURCE = BENCH / "etcdload"
FIRST_PORT = 24370
FIRST_TLS_PORT = 24450
"""Clusters with and without TLS run at the same time."""


def binary() -> Path:
    """The etcd server."""
    return _built("etcd", "go.etcd.io/etcd/server/v3")


def driver() -> Path:
    """The load generator and prober."""
    return _built("etcdload", ".")


def version() -> str:
    """Version of the server and its client, as pinned in go.mod."""
    found = re.search(r"go\.etcd\.io/etcd/server/v3 v(\S+)", (SOURCE / "go.mod").read_text())
    assert found is not None
    return found[1]


def _built(name: str, package: str) -> Path:
    """A program of the module in bench/etcdload, compiled once and cached by the hash of its sources."""
    parts = [(SOURCE / part).read_bytes() for part in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    program = cache_directory() / "programs" / f"{name}-{digest}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        print(f"compiling {name} {version()}: some minutes, only the first time", flush=True)
        partial = program.with_name(f"{program.name}.{os.getpid()}")
        build = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(partial), package]
        subprocess.run(build, cwd=SOURCE, check=True, timeout=1800)
        partial.rename(program)
    return program


class EtcdCluster(Cluster):
    """etcd with default settings: heartbeat 100 ms, election timeout 1000 ms. `tls`: mutual, for clients and for peers."""

    name = "etcd"
    fault_window_seconds = 5.0

    def __init__(self, directory: Path, *, tls: bool = False) -> None:
        super().__init__(directory)
        self.certificates = Certificates(directory / "tls") if tls else None
        self._context: ssl.SSLContext | None = None
        self._first_port = FIRST_TLS_PORT if tls else FIRST_PORT
        self._scheme = "https" if tls else "http"
        if self.certificates is not None:
            self._context = self.certificates.context()

    def client_address(self, member: int) -> str:
        """Address of a member for clients."""
        return f"127.0.0.1:{self._first_port + member}"

    def client_url(self, member: int) -> str:
        """URL of a member for clients."""
        return f"{self._scheme}://{self.client_address(member)}"

    def peer_url(self, member: int) -> str:
        """URL of a member for its peers."""
        return f"{self._scheme}://127.0.0.1:{self._first_port + 10 + member}"

    def create(self) -> None:
        binary(), driver()
        for member in MEMBERS:
            self.launch(member)
        self.await_whole()

    def command(self, member: int) -> list[str]:
        client = self.client_url(member)
        peers = ",".join(f"m{m}={self.peer_url(m)}" for m in MEMBERS)
        return [
            *(str(binary()), "--name", f"m{member}"),
            *("--data-dir", str(self.directory / f"member-{member}" / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", self.peer_url(member)),
            *("--initial-advertise-peer-urls", self.peer_url(member)),
            *("--initial-cluster", peers, "--initial-cluster-state", "new"),
            *("--initial-cluster-token", "bench", "--logger", "zap", "--log-level", "warn"),
            *self.tls_options(member),
        ]

    def tls_options(self, member: int) -> list[str]:
        """Options that require a certificate of every client and every peer; none in clear text."""
        if self.certificates is None:
            return []
        folder = self.certificates.member(member)
        options: list[str] = []
        for prefix in ("", "peer-"):
            options += [
                *(f"--{prefix}cert-file", str(folder / "tls.crt")),
                *(f"--{prefix}key-file", str(folder / "tls.key")),
                *(f"--{prefix}trusted-ca-file", str(folder / "ca.crt")),
                f"--{prefix}client-cert-auth",
            ]
        return options

    def leader(self) -> int:
        for _ in range(600):
            for member in MEMBERS:
                status = self.status(member)
                if status and status.get("leader") == status["header"]["member_id"]:
                    return member
            time.sleep(0.05)
        raise TimeoutError("etcd has no leader")

    def status(self, member: int) -> dict[str, Any] | None:
        """The maintenance status of a member; None if it does not answer."""
        url = f"{self.client_url(member)}/v3/maintenance/status"
        try:
            with urllib.request.urlopen(
                url, data=b"{}", timeout=1, context=self._context
            ) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except (OSError, ValueError):
            return None

    def await_whole(self) -> None:
        leader = self.leader()
        url = f"{self.client_url(leader)}/v3/kv/put"
        key = base64.b64encode(b"ready").decode()
        body = json.dumps({"key": key, "value": key}).encode()
        for _ in range(600):
            try:
                urllib.request.urlopen(url, data=body, timeout=1, context=self._context).close()
            except OSError:
                time.sleep(0.05)
                continue
            found = [self.status(member) for member in MEMBERS]
            indexes = [int(s["raftAppliedIndex"]) for s in found if s is not None]
            if len(indexes) == len(MEMBERS) and max(indexes) - min(indexes) <= 5:
                return
            time.sleep(0.05)
        raise TimeoutError("etcd is not whole")

    def endpoints(self) -> str:
        """All client addresses."""
        return ",".join(self.client_address(member) for member in MEMBERS)

    def driver_options(self) -> list[str]:
        """Where the driver connects to, and its certificate."""
        options = ["-endpoints", self.endpoints()]
        if self.certificates is not None:
            options += ["-tls", str(self.certificates.client)]
        return options

    def load_command(self, clients: int, seconds: float, warmup: float) -> list[str]:
        timing = ["-seconds", str(seconds), "-warmup", str(warmup)]
        return [
            str(driver()),
            "load",
            *self.driver_options(),
            "-clients",
            str(clients),
            *timing,
        ]

    def probe_command(self, seconds: float, output: Path) -> list[str]:
        options = ["-seconds", str(seconds), "-output", str(output)]
        return [str(driver()), "probe", *self.driver_options(), *options]
