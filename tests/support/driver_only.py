"""Checks that the driver of a Spark job reads and decodes no records. Owns the list of functions that do it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.files import (
    archive_tasks,
    audited_archive,
    delta_file,
    log_span,
    reduced_span,
    timeline_span,
)


@contextmanager
def nothing_decoded_here() -> Iterator[None]:
    """Holds for this process, which is the driver; workers are other processes."""

    def refuse(*_: object) -> Any:
        raise AssertionError("the driver decodes a record")

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (md, "decode_metadata"), (reduced_span, "decode_batch"), (reduced_span, "decode_records"),
            (log_span, "split_batches"), (archive_tasks, "read_records"), (delta_file, "read_delta"),
            (timeline_span, "file_groups"), (audited_archive, "file_groups"),
        ):  # fmt: skip
            patch.setattr(module, name, refuse)
        yield
