"""A thread that repeats an observation while a test runs."""

import threading
from types import TracebackType
from typing import Self


class PeriodicCheck:
    """A context manager: `look` is called every `period_s`.

    Errors of the types in `passing` are ignored.
    """

    def __init__(
        self, name: str, period_s: float, passing: tuple[type[Exception], ...] = ()
    ) -> None:
        self._period_s, self._passing = period_s, passing
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def look(self) -> None:
        """One observation, in the thread."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._ended.wait(self._period_s):
            try:
                self.look()
            except self._passing:
                continue
