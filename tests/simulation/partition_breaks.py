"""Several quorum partitions in a process, broken on purpose (see `breaks.py`)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.server.peers import pool as peers
from quorum_node.server.process import hosted_partitions
from quorum_node.server.requests import split_request
from quorum_node.server.wire.partitioned_rpc import PartitionedRpc, never_shared
from quorum_node.server.wire.rpcs import rpc_of

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def assign_answers_by_order(patch: Patch) -> None:
    """The answers in a message are assigned to the partitions in their order.

    Would: append the records of one partition to the log of another.
    """
    real = PartitionedRpc.from_wire

    def in_order(rpc: PartitionedRpc, body: Any, numbers: Sequence[int]) -> Any:
        topics = rpc.answered_topics(body)
        found = [rpc.answered_partition(part) for topic in topics for part in topic.partitions]
        return real(rpc, body, found[: len(numbers)])

    patch.setattr(PartitionedRpc, "from_wire", in_order)


def wait_for_every_partition(patch: Patch) -> None:
    """A fetch of several partitions is answered when all of them have news.

    Would: keep the commits of a busy partition waiting for a quiet one.
    """
    patch.setattr(split_request._SplitRequest, "hurry", lambda request: None)


def stop_one_partition_alone(patch: Patch) -> None:
    """A failed disk stops only the partition that detected it.

    Would: let the others acknowledge onto a disk that has failed.
    """
    patch.setattr(hosted_partitions.HostedPartitions, "fail_storage", lambda hosted, failure: None)


def send_each_partition_apart(patch: Patch) -> None:
    """Every partition sends its own requests.

    Would: multiply the requests between nodes by the number of partitions.
    """

    def apart(request: Any) -> Any:
        rpc: Any = rpc_of(request)
        return replace(rpc, shared_fields=never_shared)

    patch.setattr(peers, "rpc_of", apart)


_MIXTURES = "tests/unit/server/test_partition_mixtures.py::test_"
_SPLIT = "tests/unit/server/test_split_request.py::test_"
_SHARED = "tests/unit/server/test_shared_requests.py::test_"
_HOSTED = "tests/unit/server/test_hosted_partitions.py::test_"

BY_TEST: tuple[tuple[Break, str], ...] = (
    (assign_answers_by_order, f"{_MIXTURES}partition_responses_are_found_in_any_order"),
    (wait_for_every_partition, f"{_SPLIT}new_data_of_one_partition_completes_the_whole_request"),
    (stop_one_partition_alone, f"{_HOSTED}failed_log_of_one_partition_stops_the_other"),
    (
        send_each_partition_apart,
        f"{_SHARED}one_request_for_all_partitions_gives_each_its_response",
    ),
)
"""Caught by a unit test, which then fails."""
