"""An archive that follows its source beside a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from quorum_pipeline.files.log_directory import LogDirectory
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob

_END_SECONDS = 120.0


@contextmanager
def following(archive: Archive, source: LogDirectory | Controllers) -> Iterator[None]:
    """Follow until the end of the context; errors are raised there."""
    stopped, errors = Event(), list[Exception]()

    def run() -> None:
        try:
            ArchiveJob(archive, source, 1_000_000, 0.5).run(lambda end: None, print, stopped.wait)
        except Exception as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(_END_SECONDS)
    assert not thread.is_alive(), "the archive does not end"
    if errors:
        raise errors[0]
