"""The folders of the testbed on the machine.

Cache: made from pinned inputs, named by a hash of them, safe to delete and to carry between machines.
State: clusters, disks and a daemon of ours that run now; removed by `down`.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]
KIND_DIRECTORY = REPOSITORY / "tests" / "e2e" / "kind"


def cache_directory() -> Path:
    named = os.environ.get("METADATAQUORUM_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "metadataquorum"


def state_directory() -> Path:
    named = os.environ.get("METADATAQUORUM_STATE")
    return Path(named) if named else Path.home() / ".local" / "state" / "metadataquorum"


def cluster_directory(cluster: str) -> Path:
    return state_directory() / "clusters" / cluster


def kubeconfig_path(cluster: str) -> Path:
    return cluster_directory(cluster) / "kubeconfig"


def daemon_directory() -> Path:
    return state_directory() / "docker"


def has_own_state() -> bool:
    """Whether the state is another one than the user's usual one."""
    return "METADATAQUORUM_STATE" in os.environ


def daemon_exec_root() -> Path:
    """What a docker daemon of ours has while it runs; short, as it holds sockets. Each state has its own."""
    if not has_own_state():
        return Path("/run/metadataquorum-docker")
    digest = hashlib.sha256(str(state_directory()).encode()).hexdigest()
    return Path(f"/run/metadataquorum-docker-{digest[:8]}")


@contextlib.contextmanager
def exclusive(what: str) -> Iterator[None]:
    """Holds a lock between processes, so that two runs never build the same file at the same time."""
    locks = state_directory() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with open(locks / what, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
