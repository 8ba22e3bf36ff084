"""A Node that a member may be put on, as far as the Node tells. A plain fact."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """`domain`: its label kubernetes.io/hostname, by which volumes are tied to it."""

    name: str
    domain: str
