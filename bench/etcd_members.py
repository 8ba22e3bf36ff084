"""etcd, for comparison: three members with default settings, driven by etcd's own Go client.

Server and driver (bench/etcdload) are built once with Go, in the version that go.mod and go.sum pin, and are cached outside the
checkout.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from contender import BENCH, MEMBERS, Cluster

from support.stock_kafka import cache_directory

SOURCE = BENCH / "etcdload"
FIRST_PORT = 24370


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


def client_address(member: int) -> str:
    """Address of a member for clients."""
    return f"127.0.0.1:{FIRST_PORT + member}"


def peer_url(member: int) -> str:
    """URL of a member for its peers."""
    return f"http://127.0.0.1:{FIRST_PORT + 10 + member}"


class EtcdCluster(Cluster):
    """etcd with default settings: heartbeat 100 ms, election timeout 1000 ms."""

    name = "etcd"
    fault_window_seconds = 5.0

    def create(self) -> None:
        binary(), driver()
        for member in MEMBERS:
            self.launch(member)
        self.await_whole()

    def command(self, member: int) -> list[str]:
        client = f"http://{client_address(member)}"
        peers = ",".join(f"m{m}={peer_url(m)}" for m in MEMBERS)
        return [
            *(str(binary()), "--name", f"m{member}"),
            *("--data-dir", str(self.directory / f"member-{member}" / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer_url(member)),
            *("--initial-advertise-peer-urls", peer_url(member)),
            *("--initial-cluster", peers, "--initial-cluster-state", "new"),
            *("--initial-cluster-token", "bench", "--logger", "zap", "--log-level", "warn"),
        ]

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
        url = f"http://{client_address(member)}/v3/maintenance/status"
        try:
            with urllib.request.urlopen(url, data=b"{}", timeout=1) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except (OSError, ValueError):
            return None

    def await_whole(self) -> None:
        leader = self.leader()
        url = f"http://{client_address(leader)}/v3/kv/put"
        key = base64.b64encode(b"ready").decode()
        body = json.dumps({"key": key, "value": key}).encode()
        for _ in range(600):
            try:
                urllib.request.urlopen(url, data=body, timeout=1).close()
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
        return ",".join(client_address(member) for member in MEMBERS)

    def load_command(self, clients: int, seconds: float, warmup: float) -> list[str]:
        timing = ["-seconds", str(seconds), "-warmup", str(warmup)]
        return [
            str(driver()),
            "load",
            "-endpoints",
            self.endpoints(),
            "-clients",
            str(clients),
            *timing,
        ]

    def probe_command(self, seconds: float, output: Path) -> list[str]:
        options = ["-endpoints", self.endpoints(), "-seconds", str(seconds), "-output", str(output)]
        return [str(driver()), "probe", *options]
