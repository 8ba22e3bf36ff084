"""Errors that the user can act on. Every command reports them as one line and an exit code."""

import errno

from quorum_pipeline.redaction import redacted

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write that name no file."""


class PipelineError(Exception):
    """Invalid input or detected damage; the text contains the place and the remedy, and no credentials."""

    def __init__(self, text: object = "") -> None:
        super().__init__(redacted(text))
