"""Fail-stop after a disk error: all later operations of the log fail with the same message.

Owns that rule for one log. A full disk is not a failure, unless an operation was half done or a
sync failed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from quorum_node.storage.broker.errors import DamagedLog
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure, again, classify

T = TypeVar("T")


class FailStop:
    """`on_failure` is called once, but not for damage of this log's own data, as other logs are not
    affected.
    """

    __slots__ = ("_directory", "_on_failure", "failure")

    def __init__(
        self, directory: Path, on_failure: Callable[[StorageFailure | DiskFull], None]
    ) -> None:
        self._directory = directory
        self._on_failure = on_failure
        self.failure: StorageFailure | DiskFull | None = None

    def check(self) -> None:
        """Raises the failure, if there was one."""
        if self.failure is not None:
            raise again(self.failure)

    def disable(self, failure: StorageFailure) -> None:
        """Mark the log as failed, without a call of `on_failure`."""
        self.failure = self.failure or failure

    def fail(self, failure: StorageFailure | DiskFull) -> StorageFailure | DiskFull:
        """Record a failure, and return it for the caller to raise."""
        if self.failure is None:
            self.failure = failure
            if not isinstance(failure, DamagedLog):
                self._on_failure(failure)
        return failure

    def fail_again(
        self, first: DiskFull, second: OSError | StorageFailure | DiskFull
    ) -> StorageFailure | DiskFull:
        """As `fail`: what a full disk interrupted could not be undone, because of `second`."""
        reason = classify(second, "undo it") if isinstance(second, OSError) else second
        text = f"{first}; and then: {reason}"
        for kind in (DiskFull, OutOfResources):
            if isinstance(reason, kind):
                return self.fail(kind(text))
        return self.fail(StorageFailure(text))

    def guarded(self, action: Callable[[], T], *, full_is_final: bool = True) -> T:
        """The result of `action`. Raises StorageFailure or DiskFull."""
        try:
            return action()
        except OSError as error:
            failure = classify(error, f"write to {self._directory}")
            raise self._failed(failure, full_is_final=full_is_final) from error
        except (StorageFailure, DiskFull) as error:
            raise self._failed(error, full_is_final=full_is_final) from error

    def _failed(
        self, failure: StorageFailure | DiskFull, *, full_is_final: bool
    ) -> StorageFailure | DiskFull:
        if isinstance(failure, DiskFull) and not failure.at_sync and not full_is_final:
            return failure
        return self.fail(failure)
