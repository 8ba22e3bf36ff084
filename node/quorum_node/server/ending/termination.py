"""The end of the process: exit code, termination message, failure latch, always in bounded time.

A disk that hangs must not keep the process alive: a watchdog thread ends it in any case. Kubernetes shows the termination message in the
pod's status, where the operator reads it.
"""

import json
import os
import re
import sys
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import structlog

from quorum_node.configuration.keys.node import NODE_ID, TERMINATION_FILE
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.exit_codes import ExitCode, TerminationReason
from quorum_node.records.identity import uuid_text
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure
from quorum_node.storage.failure_latch import FailureLatch

DEFAULT_MESSAGE_FILE = Path("/dev/termination-log")
_WATCHDOG_SECONDS = 2.0
_MARK_SECONDS = 0.5
_MAX_MESSAGE_CHARS = 2000
_NODE_ID = re.compile("[0-9]{1,10}")
_LOG = structlog.get_logger("quorum_node")


@dataclass(slots=True)
class Termination:
    """The identity of this process, and the file of its termination message; completed during the start."""

    message_file: Path | None = None
    latch: FailureLatch = field(default_factory=lambda: FailureLatch(None))
    node_id: int | None = None
    replica_uuid: str | None = None

    def adopt(self, pairs: dict[str, str]) -> None:
        """Take what the termination needs from properties that are not validated yet."""
        file, node_id = pairs.get(TERMINATION_FILE.name), pairs.get(NODE_ID.name, "")
        self.message_file = Path(file) if file and "\0" not in file else None
        self.node_id = int(node_id) if _NODE_ID.fullmatch(node_id) else None

    def configured(self, config: NodeConfig) -> None:
        """The properties are valid: take the node id and the place of the failure latch."""
        self.latch = FailureLatch(config.failure_latch_file, config.data_dir)
        self.node_id = config.node_id

    def opened(self, replica_uuid: UUID) -> None:
        """The directory is open: take the replica's UUID."""
        self.replica_uuid = uuid_text(replica_uuid)

    def text(self, reason: TerminationReason, message: str) -> str:
        """The termination message: one JSON object."""
        return json.dumps(
            {
                "reason": reason.value,
                "message": message[:_MAX_MESSAGE_CHARS],
                "nodeId": self.node_id,
                "replicaUuid": self.replica_uuid,
                "advice": reason.advice,
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            }
        )

    def record(self, reason: TerminationReason, message: str, *, latch: bool = True) -> ExitCode:
        """Log, latch a storage failure, write the message; returns the exit code.

        The data volume comes last: it may hang.
        """
        code = reason.exit_code
        guard_exit(code)
        text = self.text(reason, message)
        if reason is TerminationReason.STORAGE_FAILED and latch:
            self.latch.write(text)
        self._write_message(text)
        _LOG.error(
            message,
            reason=reason.value,
            advice=reason.advice,
            exitCode=int(code),
            nodeId=self.node_id,
        )
        if reason is TerminationReason.STORAGE_FAILED and latch:
            self.latch.mark_data(text, _MARK_SECONDS)
        return code

    def bug(self, error: BaseException) -> None:
        """End the process now: state may be half changed."""
        _LOG.error(
            "an internal error ended the node", exc_info=(type(error), error, error.__traceback__)
        )
        exit_now(self.record(TerminationReason.INTERNAL_ERROR, f"internal error: {error!r}"))

    def _write_message(self, text: str) -> None:
        path = self.message_file
        if path is None:
            # Only a pod has this file; elsewhere it would not be read.
            if not DEFAULT_MESSAGE_FILE.exists():
                return
            path = DEFAULT_MESSAGE_FILE
        try:
            path.write_text(text)
        except OSError as error:
            _LOG.warning(f"the termination message can't be written to {path}: {error}")


def reason_of(error: StorageFailure | DiskFull) -> TerminationReason:
    """Why the process ends after this error of the storage."""
    if isinstance(error, DiskFull):
        return TerminationReason.DISK_FULL
    if isinstance(error, OutOfResources):
        return TerminationReason.OUT_OF_RESOURCES
    return TerminationReason.STORAGE_FAILED


def guard_exit(code: ExitCode) -> None:
    """End the process in bounded time, even if this thread never continues."""
    timer = threading.Timer(_WATCHDOG_SECONDS, exit_now, (code,))
    timer.daemon = True
    timer.start()


def exit_now(code: ExitCode) -> None:
    """Exit without any clean-up that could block on a dead disk."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(code)
