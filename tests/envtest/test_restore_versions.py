"""A restore from records that this version does not read: the condition says so, and nothing is formed."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.records import metadata as md
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties
from quorum_node.storage.partition_directory import format_partition
from support.envtest.environment import SharedQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for
from support.metadata_records import level
from support.written_log import LogWriter, write_history

pytestmark = [pytest.mark.envtest, pytest.mark.long]

_CLUSTER_ID = "newer"
_WAIT_S = 120.0
_REPLICA = UUID(int=7)


def write_newer_version(root: Path) -> None:
    """A replica's data directory whose metadata.version is above the latest that this version reads."""
    writer = LogWriter(root)
    write_history(writer)
    writer.append(level(md.METADATA_VERSION, md.LATEST_LEVEL + 1))
    writer.close()
    format_partition(root, 0, _REPLICA, _CLUSTER_ID)
    write_meta_properties(root, MetaProperties(1, _REPLICA, _CLUSTER_ID))


@pytest.mark.requirement("OP-10")
def test_backup_of_a_newer_metadata_version_is_refused_with_a_remedy(
    shared_quorum: SharedQuorum,
) -> None:
    """The claim of a member of an earlier quorum holds the newer records."""
    env, quorum = shared_quorum.env, shared_quorum.quorum
    claim = quorum.claims()[0]
    volume = env.api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    folder = Path(volume["spec"]["local"]["path"])
    env.api.delete(quorum.path)
    quorum.wait_gone(timeout_s=_WAIT_S)
    wait_for("its pods are gone", lambda: not quorum.pods(), timeout_s=_WAIT_S)
    env.quorums.remove(quorum)
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    write_newer_version(folder)
    again = env.apply(
        1,
        name="again",
        clusterId=_CLUSTER_ID,
        restoreFrom={"claimName": claim["metadata"]["name"]},
    )

    def reported() -> bool:
        words = f"metadata.version {md.LATEST_LEVEL + 1}, but this version reads"
        status = again.status()
        blocked = (status.get("plan") or {}).get("blockedBy") or ""
        degraded = [each for each in status.get("conditions") or () if each["type"] == "Degraded"]
        return words in blocked and any(words in each["message"] for each in degraded)

    wait_for("the refusal is reported", reported, timeout_s=_WAIT_S, seen=again.summary)
    assert again.status()["phase"] != "Ready"
    path = kube.core(env.namespace, "persistentvolumeclaims", claim["metadata"]["name"])
    assert env.api.find(path) is not None
