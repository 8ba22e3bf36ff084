"""Metrics of a node in a quorum of local processes."""

from support.local_quorum import LocalNode, LocalQuorum


def counter(quorum: LocalQuorum, node: LocalNode, name: str) -> int:
    """A counter of partition 0, `name` without prefix and `_total`. Raises StopIteration if the node has no such counter."""
    begin = f'metadata_quorum_{name}_total{{partition="0"}} '
    lines = quorum.client.get(f"{node.admin_url}/metrics").text.splitlines()
    return int(float(next(each for each in lines if each.startswith(begin)).removeprefix(begin)))
