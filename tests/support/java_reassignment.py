"""The stock tool `kafka-reassign-partitions`: its plans and its output. Used by tests/interop and tests/pipeline."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from support import stock_kafka

_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_TIMEOUT_SECONDS = 180.0
_LISTED = re.compile(r"^(\S+-\d+): replicas: ", re.MULTILINE)

Replicas = Mapping[int, tuple[int, ...]]
"""By partition."""
Directories = Mapping[int, tuple[str, ...]]
"""Log directories of the replicas, by partition."""


class ReassignmentTool:
    """Runs the tool; each call is a virtual machine of its own."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder

    def execute(
        self, topic: str, target: Replicas, *, throttle: int, additional: bool = False
    ) -> None:
        """Start, with `throttle` bytes per second and broker; `additional`: while others are in progress."""
        options = ["--execute", "--throttle", str(throttle)]
        output = self._run(topic, target, *options, *(["--additional"] if additional else []))
        assert "Successfully started partition reassignment" in output, output

    def move_directories(
        self, topic: str, target: Replicas, directories: Directories, *, throttle: int
    ) -> None:
        """Start, with a log directory for each replica, or `any`; `throttle` bytes per second and broker for moves between them."""
        options = ["--execute", "--replica-alter-log-dirs-throttle", str(throttle)]
        output = self._run(topic, target, *options, directories=directories)
        assert "Successfully started" in output, output

    def verify_complete(
        self, topic: str, target: Replicas, directories: Directories | None = None
    ) -> None:
        """Check that every partition has the requested replicas; the tool then removes the throttles."""
        output = self._run(topic, target, "--verify", directories=directories)
        for partition_id in target:
            assert f"Reassignment of partition {topic}-{partition_id} is completed." in output, (
                output
            )
        assert "Clearing broker-level throttles" in output, output

    def execute_plan(self, file: Path) -> None:
        """Begin what a file in the tool's own format says."""
        output = self._tool("--reassignment-json-file", str(file), "--execute")
        assert "Successfully started partition reassignments" in output, output

    def verify_plan(self, file: Path) -> str:
        """The tool's output for each partition in the file."""
        return self._tool("--reassignment-json-file", str(file), "--verify")

    def cancel(self, topic: str, target: Replicas) -> None:
        """Cancel what is in progress."""
        output = self._run(topic, target, "--cancel")
        assert "Successfully cancelled partition reassignments" in output, output

    def listed(self) -> set[str]:
        """Partitions that are moving now, as `topic-partition`."""
        return set(_LISTED.findall(self._tool("--list")))

    def _run(
        self, topic: str, target: Replicas, *options: str, directories: Directories | None = None
    ) -> str:
        partitions: list[dict[str, object]] = []
        for partition_id, replicas in sorted(target.items()):
            each = {"topic": topic, "partition": partition_id, "replicas": list(replicas)}
            if directories is not None:
                each["log_dirs"] = list(directories[partition_id])
            partitions.append(each)
        plan = {"version": 1, "partitions": partitions}
        file = self._folder / "reassignment.json"
        file.write_text(json.dumps(plan))
        return self._tool("--reassignment-json-file", str(file), *options)

    def _tool(self, *options: str) -> str:
        arguments = ["--bootstrap-server", self._bootstrap, *options]
        done = stock_kafka.run_tool(_TOOL, *arguments, timeout_seconds=_TIMEOUT_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
