"""Deliberate defects of the broker, and how to play rounds with one of them: rounds that never fail show nothing.

A broken copy of the node's code is made in a temporary folder, and the rounds are played by another process that imports it from there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from support.kind_env.testbed import REPOSITORY


@dataclass(frozen=True, slots=True)
class Break:
    """`line` occurs once in the module, a path below the package `quorum_node`; `instead` replaces it.

    `test`: the test that fails with it, of a defect that rounds rarely show.
    """

    name: str
    module: str
    line: str
    instead: str
    test: str = ""


BREAKS = (
    Break(
        "acknowledged-before-replication",
        "broker/waiting_produces.py",
        "waiting = self._for_all if event.acks == ACKS_ALL else self._for_writer",
        "waiting = self._for_writer",
    ),
    Break(
        "high-watermark-without-followers",
        "broker/leader.py",
        "lowest = min(lowest, progress.end_offset)",
        "pass",
    ),
    Break(
        "high-watermark-at-start-is-the-end",
        "storage/broker/partition_log.py",
        "return OpenedLog(start, end, high_watermark, self._epochs.starts, self.producers())",
        "return OpenedLog(start, end, end, self._epochs.starts, self.producers())",
        test="tests/unit/broker_storage/test_log_directories.py::test_clean_stop_writes_files_that_a_stock_broker_reads",
    ),
    Break(
        "producers-forgotten-at-start",
        "storage/broker/partition_log.py",
        "return OpenedLog(start, end, high_watermark, self._epochs.starts, self.producers())",
        "return OpenedLog(start, end, high_watermark, self._epochs.starts, ())",
    ),
    Break(
        "no-divergence",
        "broker/fetch_serving.py",
        "if end.epoch < event.last_fetched_epoch or end.end_offset < event.fetch_offset:",
        "if False:",
        test="tests/unit/broker/test_leader.py::test_divergence_is_detected_by_epoch_and_offset",
    ),
    Break(
        "aborted-index-lost-at-start",
        "storage/broker/transaction_index.py",
        "self._aborted = [AbortedTransaction(*entry[1:]) for entry in entries]",
        "self._aborted = []",
        test="tests/unit/broker_storage/test_partition_log.py::test_first_unstable_offset_and_aborted_transactions",
    ),
    Break(
        "aborted-index-only-on-disk",
        "storage/broker/transaction_index.py",
        "self._write([aborted], len(self._aborted))\n        self._aborted.append(aborted)",
        "self._write([aborted], len(self._aborted))",
        test="tests/unit/broker_storage/test_partition_log.py::test_first_unstable_offset_and_aborted_transactions",
    ),
    Break(
        "stable-offset-is-the-high-watermark",
        "server/broker/hosted_replica.py",
        "if unstable is None:\n            return high_watermark",
        "return high_watermark",
        test="tests/unit/server/test_stable_offsets.py::test_last_stable_offset_is_not_before_the_start_of_the_log",
    ),
    Break(
        "consumers-see-the-end",
        "broker/fetch_serving.py",
        "max(event.fetch_offset, log.high_watermark),\n        log.high_watermark,",
        "max(event.fetch_offset, log.end_offset),\n        log.end_offset,",
    ),
    Break(
        "records-deleted-on-the-leader-only",
        "broker/follower.py",
        "if event.log_start_offset > state.log.start_offset:",
        "if False:",
        test="tests/unit/broker/test_follower.py::test_records_deleted_by_the_leader_are_deleted",
    ),
    Break(
        "duplicates-unknown",
        "broker/producers.py",
        "return Duplicate(kept.base_offset, kept.end_offset)",
        "return None",
    ),
    Break(
        "leader-epochs-of-fetches-ignored",
        "broker/fetch_serving.py",
        "if leader_epoch == NO_EPOCH or leader_epoch == state.leader_epoch:",
        "if True:",
        test="tests/unit/broker/test_leader.py::test_fetch_requires_the_epoch_of_the_leader",
    ),
)


def named(name: str) -> Break:
    """One of them. Raises KeyError."""
    return {each.name: each for each in BREAKS}[name]


def broken_text(each: Break, root: Path = REPOSITORY) -> str:
    """The module's text with the defect. Raises AssertionError if the line is not there exactly once."""
    text = (root / "node" / "quorum_node" / each.module).read_text()
    assert text.count(each.line) == 1, (
        f"{each.module} has this {text.count(each.line)} times: {each.line}"
    )
    return text.replace(each.line, each.instead)


def play_broken(each: Break, seeds: Iterable[int]) -> int:
    """Play these rounds with the defect; the exit code is 1 if one of them failed, as it should."""
    return _run(each, ["support.random_faults", "--again", *map(str, seeds)])


def run_test_of(each: Break) -> int:
    """Run the test of the defect; pytest's exit code is 1 if it failed, as it should."""
    return _run(each, ["pytest", "-q", "-m", "", "-p", "no:cacheprovider", each.test])


def _run(each: Break, module: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="broken-node-") as folder:
        shutil.copytree(REPOSITORY / "node" / "quorum_node", Path(folder) / "quorum_node")
        (Path(folder) / "quorum_node" / each.module).write_text(broken_text(each))
        path = os.pathsep.join((folder, str(REPOSITORY / "tests")))
        env = os.environ | {"PYTHONPATH": path}
        command = [sys.executable, "-m", *module]
        return subprocess.run(command, env=env, cwd=REPOSITORY).returncode
