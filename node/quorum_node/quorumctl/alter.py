"""`alter`: sets the target voters of a quorum and shows the progress.

The first two lines of output follow KIP-595, "Altering Voters". The call returns when the target is
committed; `--follow` waits until it is reached.
"""

import argparse
import time

from pydantic import BaseModel

from quorum_node.api import (
    AlterQuorumRequest,
    AlterQuorumResult,
    ErrorCode,
    QuorumDescription,
    TargetVoterModel,
)
from quorum_node.quorumctl import render
from quorum_node.quorumctl.client import AdminClient, CommandFailed, WrongUsage
from quorum_node.quorumctl.output import show

PATH = "/v1/alter-quorum"
_POLL_SECONDS = 0.2


def alter(client: AdminClient, arguments: argparse.Namespace) -> tuple[BaseModel, list[str]]:
    """Set or cancel the target voters."""
    if arguments.cancel:
        result = client.call(
            AlterQuorumResult,
            "DELETE",
            PATH,
            expectedOffset=arguments.expected_offset,
            expectedEpoch=arguments.expected_epoch,
            timeoutMs=client.timeout_ms,
        )
    else:
        request = AlterQuorumRequest(
            target_voters=_voters(arguments.voters),
            expected_offset=arguments.expected_offset,
            expected_epoch=arguments.expected_epoch,
            timeout_ms=client.timeout_ms,
        )
        result = client.call(AlterQuorumResult, "POST", PATH, request)
    lines = render.altered(result)
    if not arguments.follow:
        return result, lines
    if not arguments.json:
        show("\n".join(lines))
    return result, follow(client, quiet=arguments.json)


def follow(client: AdminClient, *, quiet: bool) -> list[str]:
    """Print a line for every change until there is no target any more. Returns the last line."""
    last = ""
    while True:
        quorum = _describe(client)
        if quorum is not None:
            if quorum.target_voters is None and not quorum.pending_change:
                return [f"done: the voters are {render.ids(quorum.voters)}"]
            line = _progress(quorum)
            if line != last and not quiet:
                show(line)
            last = line
        time.sleep(_POLL_SECONDS)


def _progress(quorum: QuorumDescription) -> str:
    """One line of progress. The target is removed before the record that reached it is committed."""
    voters = render.ids(quorum.voters)
    if quorum.target_voters is None:
        return f"{voters}  the last change is not committed yet"
    return f"{voters} → {render.targets(quorum)}  {quorum.plan}".rstrip()


def _describe(client: AdminClient) -> QuorumDescription | None:
    """The leader's description; None while there is no leader, as during a hand-over."""
    try:
        return client.call(
            QuorumDescription, "GET", "/v1/quorum", confirmed="true", timeoutMs=client.timeout_ms
        )
    except CommandFailed as error:
        if error.code in (ErrorCode.NO_LEADER, ErrorCode.NOT_LEADER, ErrorCode.NOT_CONFIRMED):
            return None
        raise


def _voters(text: str) -> list[int | TargetVoterModel]:
    voters = [_voter(each) for each in text.split(",")]
    ids = [each if isinstance(each, int) else each.id for each in voters]
    for number in ids:
        if ids.count(number) > 1:
            raise WrongUsage(f"{text!r} names voter {number} twice: remove one")
    return voters


def _voter(text: str) -> int | TargetVoterModel:
    number, _, uuid = text.strip().partition(":")
    if not (number.isascii() and number.isdigit()):
        raise WrongUsage(
            f"{text.strip()!r} is not a list of voters: write ids as 0,3,4, or 3:UUID to name a replica UUID"
        )
    return TargetVoterModel(id=int(number), uuid=uuid) if uuid else int(number)
