"""Cuts pods and nodes off with packet filter rules, and heals them.

A pod is cut off where its packets are forwarded, on its node: nothing reaches it from another pod,
another node or outside, while the kubelet's probes, which come from the node itself, still do. Rules
carry a comment, by which `heal` finds and removes them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.nodes import on_node

_COMMENT = "metadataquorum-cut"


def cut_pod(node: str, pod_ip: str) -> None:
    """Drops every forwarded packet from and to the pod."""
    _insert(node, "FORWARD", ["-s", pod_ip])
    _insert(node, "FORWARD", ["-d", pod_ip])


def cut_pair(node: str, pod_ip: str, other_ip: str) -> None:
    """Drops what the pod, which runs on `node`, and the other pod send to each other."""
    _insert(node, "FORWARD", ["-s", pod_ip, "-d", other_ip])
    _insert(node, "FORWARD", ["-s", other_ip, "-d", pod_ip])


def cut_one_way(node: str, source_ip: str, destination_ip: str) -> None:
    """Drops only one direction; `node` runs either of the pods."""
    _insert(node, "FORWARD", ["-s", source_ip, "-d", destination_ip])


def cut_node(node: str) -> None:
    """Drops everything that enters, leaves or crosses the node, but not its loopback."""
    _insert(node, "INPUT", ["!", "-i", "lo"])
    _insert(node, "OUTPUT", ["!", "-o", "lo"])
    _insert(node, "FORWARD", [])


def heal(node: str) -> None:
    """Removes every rule of ours on the node; does nothing where there is none."""
    for line in on_node(node, ["iptables", "-w", "-S"]).splitlines():
        if _COMMENT in line and line.startswith("-A "):
            words = [word.strip('"') for word in line.split()]
            on_node(node, ["iptables", "-w", "-D", *words[1:]])


@contextmanager
def pod_cut_off(node: str, pod_ip: str) -> Iterator[None]:
    cut_pod(node, pod_ip)
    try:
        yield
    finally:
        heal(node)


@contextmanager
def node_cut_off(node: str) -> Iterator[None]:
    cut_node(node)
    try:
        yield
    finally:
        heal(node)


def _insert(node: str, chain: str, match: list[str]) -> None:
    rule = [*match, "-m", "comment", "--comment", _COMMENT, "-j", "DROP"]
    on_node(node, ["iptables", "-w", "-I", chain, "1", *rule])
