"""A process that may open no more files ends, and the next one is the same replica."""

import resource
from collections.abc import Callable

from quorum_node.exit_codes import ExitCode
from quorum_node.storage.failure_latch import FAILURE_MARK
from support.local_quorum import LocalQuorum


def test_process_without_descriptors_ends_and_the_next_one_is_the_same_replica(
    make_quorum: Callable[..., LocalQuorum],
) -> None:
    """The probe of its disk is the first thing that it can't open."""
    quorum = make_quorum(1, formed=True)
    (node,) = quorum.nodes.values()
    quorum.put("before", "1")
    uuid = quorum.local(node.id)["replicaUuid"]
    assert node.process is not None
    hard = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    assert node.wait_exit() == ExitCode.OUT_OF_RESOURCES, node.log_text
    assert "EMFILE" in node.log_text
    for latch in (node.root / "failed", node.data_dir / FAILURE_MARK):
        assert not latch.exists()
    node.start()
    quorum.put("after", "2")
    assert (quorum.get("before"), quorum.get("after")) == ("1", "2")
    assert quorum.local(node.id)["replicaUuid"] == uuid
