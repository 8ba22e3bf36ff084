"""Reports that the objects of a quorum can't be read."""

from typing import Any

import structlog

from quorum_operator.kube.errors import ApiError
from quorum_operator.refused import by_api, is_outage
from quorum_operator.remembered import Remembered
from quorum_operator.report import Reporter, blocked

Object = dict[str, Any]

LASTING_OUTAGES = 5
"""Number of reconciles in a row that fail because the API server is unavailable, after which the resource says so."""

_log = structlog.get_logger("quorum_operator")


async def report_unread(
    reporter: Reporter, known: Remembered, path: str, resource: Object, error: ApiError
) -> None:
    """Report the error on the resource. An outage is reported if it lasts: until then the status can hardly be written either."""
    known.outages += 1
    if is_outage(error) and known.outages < LASTING_OUTAGES:
        return
    try:
        await reporter.hold(path, resource, blocked(by_api("reading", error)))
    except ApiError as unwritten:
        _log.debug("status not written", path=path, error=str(unwritten))
