"""A point in a history: an offset or a time. PURE."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quorum_pipeline.errors import PipelineError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state before `offset`, or after the last record up to `time_ms` (inclusive); with neither: at the end of the log."""

    offset: int | None = None
    time_ms: int | None = None


def parsed_time_ms(text: str) -> int:
    """Parse an ISO 8601 time, by default in UTC, to milliseconds since 1970. Raises PipelineError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"{text!r} is not a valid time; write it as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00.250+01:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Down to a whole millisecond: a later record is not one up to this time.
    return (moment - _EPOCH) // timedelta(milliseconds=1)
