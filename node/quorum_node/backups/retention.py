"""Order of backups, and which ones are deleted. Pure.

The names have the time of a clock that may be wrong. The end of the log is never wrong: offsets grow, and a recovery
or a restore, which loses offsets, raises the epoch.
"""

from collections.abc import Mapping

from quorum_node.backups.manifest import Manifest


def age_order(manifest: Manifest) -> tuple[int, int, int]:
    """Sorts the backups of one cluster, oldest first."""
    return manifest.epoch, manifest.end_offset, manifest.taken_at


def surplus(found: Mapping[str, Manifest], newest: Manifest, keep: int) -> list[str]:
    """Names of the oldest backups of the cluster of `newest` beyond `keep`, which is at least 1. `newest` is kept."""
    others = [
        name
        for name, each in found.items()
        if each.cluster_id == newest.cluster_id and name != newest.name
    ]
    others.sort(key=lambda name: age_order(found[name]))
    return others[: max(len(others) - (keep - 1), 0)]
