"""`quorum-pipeline restore`: a node's directory with the state at one point, to start a new quorum from."""

import argparse
from pathlib import Path

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.host_port import parse_voter_address
from quorum_node.records.identity import parse_uuid, uuid_text
from quorum_pipeline.commands.histories import (
    AnyState,
    add_history,
    check_outside,
    opened_tables,
)
from quorum_pipeline.commands.moments import add_moment, moment_of, shown_time
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.restored_directory import FirstVoter, write_directory

_LARGEST_ID = (1 << 31) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    add_history(parser, live=True)
    add_moment(parser)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="metadata.log.dir"
    )
    parser.add_argument(
        "--voter", required=True, metavar="ID@HOST:PORT", help="the node that will run there"
    )
    parser.add_argument("--replica-uuid", help="replica UUID of that node; default: a new one")
    parser.add_argument(
        "--cluster-id",
        help="default: the one in the log, if any; with a different one epochs start again from the beginning",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises PipelineError."""
    check_outside(arguments, arguments.output)
    voter = parsed_voter(arguments.voter, arguments.replica_uuid)
    progress = Progress("replaying", "offsets")
    with opened_tables(arguments, progress) as history:
        state = history.at(moment_of(arguments))
        cluster_id = arguments.cluster_id or _cluster_id(state)
        moment = f"offset {state.end_offset}, epoch {state.epoch}, {shown_time(state.timestamp_ms)}"
        if state.voters is None or state.voters.cluster_id != cluster_id:
            state.reset_epochs()
        progress.report(f"writing {arguments.output}, and reading it back")
        path = write_directory(arguments.output, state, voter, cluster_id)
        progress.report(history.how())
    print(f"restored {moment}: {path}")
    print(
        f"  node.id={voter.id}, replica {uuid_text(voter.uuid)}, cluster.id={cluster_id}; a node with "
        f"metadata.log.dir={arguments.output} starts as a quorum of one, to which others can be added"
    )
    print(f"  {progress.seconds:.1f} s")
    return 0


def parsed_voter(text: str, replica_uuid: str | None) -> FirstVoter:
    """Parse the first voter. Raises PipelineError."""
    try:
        voter = parse_voter_address(text)
        uuid = fresh_uuid() if replica_uuid is None else parse_uuid(replica_uuid)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    if voter.id > _LARGEST_ID:
        raise PipelineError(f"{text!r}: {voter.id} is not a node id from 0 to {_LARGEST_ID}")
    return FirstVoter(voter.id, uuid, voter.address.host, voter.address.port)


def _cluster_id(state: AnyState) -> str:
    known = state.voters.cluster_id if state.voters else None
    if known is None:
        raise PipelineError("this log contains no cluster id: specify --cluster-id")
    return known
