"""Checks that the driver of a Spark job decodes no records. Owns the list of functions that decode."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.files import log_span, reduced_span


@contextmanager
def nothing_decoded_here() -> Iterator[None]:
    """Holds for this process, which is the driver; workers are other processes."""

    def refuse(*_: object) -> Any:
        raise AssertionError("the driver decodes a record")

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (md, "decode_metadata"), (reduced_span, "decode_batch"), (reduced_span, "decode_records"),
            (log_span, "split_batches"),
        ):  # fmt: skip
            patch.setattr(module, name, refuse)
        yield
