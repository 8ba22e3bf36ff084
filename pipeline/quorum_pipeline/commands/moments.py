"""Selection of a point in a history: `--at-offset` or `--at-time`."""

import argparse
from datetime import UTC, datetime

from quorum_pipeline.state.moment import Moment, parsed_time_ms


def add_moment(parser: argparse.ArgumentParser) -> None:
    """The two arguments; by default the newest state."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--at-offset", type=int, metavar="N", help="state before the record at offset N"
    )
    group.add_argument(
        "--at-time",
        metavar="T",
        help="state after the last record up to T, such as 2026-01-31T12:00:00Z",
    )


def moment_of(arguments: argparse.Namespace) -> Moment:
    """Return the moment in the arguments. Raises PipelineError."""
    if arguments.at_time is None:
        return Moment(offset=arguments.at_offset)
    return Moment(time_ms=parsed_time_ms(arguments.at_time))


def shown_time(time_ms: int) -> str:
    """Format a time in UTC with milliseconds; a time outside of the calendar's range as its number."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms after 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
