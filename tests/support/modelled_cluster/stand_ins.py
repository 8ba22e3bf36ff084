"""Replaces, for the time of a round, what acts call outside of the cluster's API: hosts, links, shells, and the clock."""

import contextlib
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch
from uuid import UUID

from quorum_operator import execute
from support.kind_env.testbed import network, nodes
from support.modelled_cluster.cluster import ModelledCluster
from support.modelled_cluster.hosts import CONTROL_PLANE
from support.random_changes import volume_acts

_DISK = re.compile(r"\b(w\d+-s\d+)\b")


@contextlib.contextmanager
def stand_ins(cluster: ModelledCluster, seed: int) -> Iterator[None]:
    """Everything that is random follows from the seed as well."""
    made = random.Random(f"operator {seed}")
    replaced: list[tuple[Any, str, Any]] = [
        (time, "sleep", _on_this_thread(cluster.sleep, time.sleep)),
        (time, "monotonic", _on_this_thread(cluster.loop.time, time.monotonic)),
        (time, "time", _on_this_thread(cluster.now, time.time)),
        (volume_acts, "run", _Shell(cluster).run),
        (execute, "fresh_uuid", lambda: UUID(int=made.getrandbits(127), version=4)),
        (secrets, "token_urlsafe", lambda count: f"{made.getrandbits(200):x}"),
        *((nodes, name, each) for name, each in _hosts(cluster).items()),
        *((network, name, each) for name, each in _links(cluster).items()),
    ]
    before = random.getstate()
    random.seed(f"jitter {seed}")
    try:
        with contextlib.ExitStack() as stack:
            for owner, name, each in replaced:
                stack.enter_context(patch.object(owner, name, each))
            yield
    finally:
        random.setstate(before)


def _on_this_thread(modelled: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """Threads that other tests of this process have left keep the real clock: only one thread may run the cluster's loop."""
    own = threading.get_ident()

    def chosen(*args: Any) -> Any:
        return (modelled if threading.get_ident() == own else real)(*args)

    return chosen


def _hosts(cluster: ModelledCluster) -> dict[str, Any]:
    hosts, names = cluster.hosts.by_name, tuple(cluster.hosts.by_name)

    def stop_node(name: str) -> None:
        hosts[name].on = False
        cluster.kubelets.power_off(name, cluster.now())

    def start_node(name: str) -> None:
        hosts[name].on = True
        cluster.hosts.register(name, cluster.now())

    def stop_kubelet(name: str) -> None:
        hosts[name].kubelet = False

    def restart_kubelet(name: str) -> None:
        cluster.hosts.register(name, cluster.now())

    return {
        "node_names": lambda _: (CONTROL_PLANE, *names),
        "is_running": lambda name: hosts[name].runs,
        "stop_node": stop_node,
        "start_node": start_node,
        "stop_kubelet": stop_kubelet,
        "restart_kubelet": restart_kubelet,
        "on_node": _Shell(cluster).on_node,
    }


def _links(cluster: ModelledCluster) -> dict[str, Any]:
    links = cluster.hosts.links

    def cut_pair(host: str, one: str, other: str) -> None:
        links.pairs.setdefault(host, set()).add(frozenset((one, other)))

    return {
        "cut_pod": lambda host, address: links.pods.setdefault(host, set()).add(address),
        "cut_pair": cut_pair,
        "cut_one_way": cut_pair,  # A fetch needs both ways.
        "cut_node": links.hosts.add,
        "heal": links.heal,
    }


class _Shell:
    """Commands of acts on this machine and on hosts."""

    def __init__(self, cluster: ModelledCluster) -> None:
        self._cluster = cluster

    def run(self, command: Sequence[str], **_: Any) -> None:
        if command[0] == "docker":
            self._cluster.hosts.by_name[command[2]].still = command[1] == "pause"
            return
        text = command[-1]
        found = _DISK.search(text)
        assert found is not None, text
        disk = self._cluster.volumes.named(f"disk-{found[1]}")
        match text.split()[:2]:
            case ["rm", _]:
                disk.replica = None
            case ["dd", _]:
                disk.corrupt = True
            case ["mount", _]:
                disk.read_only = True
            case ["fsfreeze", option]:
                disk.frozen = option == "-f"
            case ["chown", _]:
                disk.closed = True
            case _:
                raise AssertionError(text)

    def on_node(self, host: str, command: Sequence[str], **_: Any) -> str:
        server = self._cluster.server
        match list(command):
            case ["pkill", "-KILL", *_]:
                self._cluster.kill_api_server()
            case ["pkill", signal, "-x", "kube-apiserver"]:
                server.freeze(frozen=signal == "-STOP")
            case ["pkill", signal, "-x", _]:
                self._cluster.controllers_frozen = signal == "-STOP"
            case ["ctr", *_] | ["systemctl", "restart", "containerd"]:
                pass
            case _:
                raise AssertionError(command)
        return ""
