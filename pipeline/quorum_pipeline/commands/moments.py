"""Which moment of a history is meant: `--at-offset` or `--at-time`."""

import argparse
from datetime import UTC, datetime

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.replay import Moment


def add_moment(parser: argparse.ArgumentParser) -> None:
    """The two arguments; without both the newest state is meant."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--at-offset", type=int, metavar="N", help="before the record at offset N")
    group.add_argument(
        "--at-time", metavar="T", help="after the last record up to T, such as 2026-01-31T12:00:00Z"
    )


def moment_of(arguments: argparse.Namespace) -> Moment:
    """Raises PipelineError."""
    if arguments.at_time is None:
        return Moment(offset=arguments.at_offset)
    return Moment(time_ms=parsed_time_ms(arguments.at_time))


def parsed_time_ms(text: str) -> int:
    """ISO 8601; without a zone it is UTC. Raises PipelineError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"{text!r} is no time; write it as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00.250+01:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def shown_time(time_ms: int) -> str:
    """With milliseconds, in UTC."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
