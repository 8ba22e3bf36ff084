"""Separate hosts on one machine, and a packet filter between them.

Each host is a network namespace with one address; a bridge in another namespace, the hub, connects them. A thread in the hub (`with
FilteredNetwork(...)`: the calling thread, and the threads and processes that it starts later) reaches every host. The rules are in the
hosts' namespaces: the machine's own network is not changed. Needs root, `ip` (iproute2) and `nft` (nftables).
"""

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

HUB_ADDRESS = "10.99.0.1"
_CLONE_NEWNET = 0x40000000
_PREFIX = "mqhost"
_RULES = """
table inet cut {
    set dropped { type ipv4_addr; }
    set refused { type ipv4_addr; }
    chain input {
        type filter hook input priority 0;
        ip saddr @dropped drop;
        ip saddr @refused meta l4proto tcp reject with tcp reset;
    }
}
"""
_numbers = itertools.count()


def require_namespaces() -> None:
    """Skip the test, with the reason, where no network namespace can be made."""
    reason = missing_for_namespaces()
    if reason is not None:
        pytest.skip(reason)


def missing_for_namespaces() -> str | None:
    """Why no network namespace with a packet filter can be made here; None if one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian package {package})"
    probe = f"{_PREFIX}{os.getpid()}x-probe"
    made = subprocess.run(
        ["ip", "netns", "add", probe], capture_output=True, text=True, check=False
    )
    if made.returncode != 0 and "not permitted" in made.stderr:
        return f"network namespaces are not permitted here: {made.stderr.strip()}"
    _run("ip", "netns", "del", probe)
    return None


class FilteredNetwork:
    """Hosts by number (1 to 200). A context manager: it enters the hub, and removes all at the end."""

    def __init__(self, hosts: Sequence[int]) -> None:
        self._hosts = list(hosts)
        self._name = f"{_PREFIX}{os.getpid()}x{next(_numbers)}"
        self._home = -1

    def __enter__(self) -> "FilteredNetwork":
        _remove_abandoned()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        hub = os.open(f"/run/netns/{self._namespace(0)}", os.O_RDONLY)
        try:
            _enter(hub)
        finally:
            os.close(hub)
        return self

    def __exit__(self, *exc: object) -> None:
        _enter(self._home)
        os.close(self._home)
        self._remove()

    def address(self, host: int) -> str:
        """Address of a host."""
        return f"10.99.0.{10 + host}"

    def command(self, host: int) -> tuple[str, ...]:
        """Prefix of the command line of a program on that host; the process id is that of the program."""
        return ("ip", "netns", "exec", self._namespace(host))

    def cut(self, deaf: int, unheard: Iterable[int], *, refuse: bool = False) -> None:
        """`deaf` receives nothing from `unheard`, which still receive its packets.

        With `refuse` their connections are reset, as after the end of a process; otherwise packets are dropped.
        """
        addresses = ", ".join(self.address(host) for host in unheard)
        if addresses:
            kind = "refused" if refuse else "dropped"
            self._filter(deaf, "add", "element", "inet", "cut", kind, f"{{ {addresses} }}")

    def split(self, left: Iterable[int], right: Iterable[int]) -> None:
        """Drop all packets between the two sides."""
        left, right = list(left), list(right)
        for host in left:
            self.cut(host, right)
        for host in right:
            self.cut(host, left)

    def heal(self) -> None:
        """Remove all faults."""
        for host in self._hosts:
            for kind in ("dropped", "refused"):
                self._filter(host, "flush", "set", "inet", "cut", kind)

    def _namespace(self, host: int) -> str:
        return f"{self._name}-{host}"

    def _filter(self, host: int, *words: str) -> None:
        _run("ip", "netns", "exec", self._namespace(host), "nft", *words)

    def _make(self) -> None:
        hub = self._namespace(0)
        _run("ip", "netns", "add", hub)
        _run("ip", "-n", hub, "link", "set", "lo", "up")
        _run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", hub, "addr", "add", f"{HUB_ADDRESS}/24", "dev", "br0")
        _run("ip", "-n", hub, "link", "set", "br0", "up")
        for host in self._hosts:
            name, port = self._namespace(host), f"host{host}"
            _run("ip", "netns", "add", name)
            peer = ("type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "-n", hub, "link", "add", port, *peer)
            _run("ip", "-n", hub, "link", "set", port, "master", "br0", "up")
            _run("ip", "-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            _run("ip", "netns", "exec", name, "nft", "-f", "-", stdin=_RULES)

    def _remove(self) -> None:
        for host in (*self._hosts, 0):
            if Path("/run/netns", self._namespace(host)).exists():
                _run("ip", "netns", "del", self._namespace(host))


def _remove_abandoned() -> None:
    """Remove namespaces of killed runs; the name contains the process id."""
    for path in Path("/run/netns").glob(f"{_PREFIX}*"):
        pid = path.name.removeprefix(_PREFIX).partition("x")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True, check=False)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


def _run(*command: str, stdin: str | None = None) -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
