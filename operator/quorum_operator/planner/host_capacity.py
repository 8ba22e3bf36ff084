"""A Node that members may run on, according to the Node object."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """One Node. `domain`: its label kubernetes.io/hostname, which ties volumes to it."""

    name: str
    domain: str
