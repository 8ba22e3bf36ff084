"""`watch`: shows changes of the quorum.

A terminal is redrawn in place; other output gets a line per change.
"""

import sys
import time
from datetime import UTC, datetime

from quorum_node.api import NodeDescription, QuorumDescription
from quorum_node.quorumctl import render
from quorum_node.quorumctl.client import AdminClient, CommandFailed, WrongUsage
from quorum_node.quorumctl.output import show

_CLEAR = "\x1b[H\x1b[J"


def watch(client: AdminClient, interval_seconds: float, count: int | None) -> None:
    """Run until interrupted, or for `count` updates."""
    last = ""
    rounds = 0
    while count is None or rounds < count:
        rounds += 1
        nodes, quorum = _describe_nodes(client)
        if sys.stdout.isatty():
            show("\n".join(_page(nodes, quorum)), before=_CLEAR)
        else:
            line = _summary(nodes, quorum)
            if line != last:
                show(f"{_clock()}  {line}")
            last = line
        if rounds != count:
            time.sleep(interval_seconds)


Nodes = list[tuple[str, NodeDescription | CommandFailed]]
"""URLs, each with the view of its node or with the reason why there is none."""


def _describe_nodes(client: AdminClient) -> tuple[Nodes, QuorumDescription | None]:
    """The view of every given node, and the leader's description if it is among them and answers. Raises WrongUsage."""
    nodes: Nodes = []
    quorum: QuorumDescription | None = None
    for url in client.urls:
        try:
            node = client.call_one(url, NodeDescription, "GET", "/v1/node")
            nodes.append((url, node))
            if quorum is None or node.role.value == "leader":
                quorum = client.call_one(url, QuorumDescription, "GET", "/v1/quorum")
        except WrongUsage:
            raise
        except CommandFailed as error:
            nodes.append((url, error))
    return nodes, quorum


def _page(nodes: Nodes, quorum: QuorumDescription | None) -> list[str]:
    lines = [f"{_clock()}  (Ctrl-C ends)", ""]
    rows = [_node_row(url, node) for url, node in nodes]
    headers = ("Admin", "NodeId", "Role", "Leader", "Epoch", "HighWatermark", "LogEnd", "Storage")
    lines += render.table(headers, rows)
    lines += [str(answer) for _, answer in nodes if isinstance(answer, CommandFailed)]
    if quorum is not None:
        lines += ["", *render.replication(quorum)]
        if quorum.target_voters is not None:
            lines.append(f"target voters {render.targets(quorum)}: {quorum.plan}")
        elif quorum.pending_change:
            lines.append("a voter change is in progress")
    return lines


def _node_row(url: str, node: NodeDescription | CommandFailed) -> tuple[object, ...]:
    if isinstance(node, CommandFailed):
        role = "no answer" if node.code is None else "refused"
        return (url, "-", role, "-", "-", "-", "-", "-")
    leader = "-" if node.leader_id is None else node.leader_id
    return (
        url,
        node.node_id,
        node.role.value,
        leader,
        node.leader_epoch,
        node.high_watermark,
        node.log_end_offset,
        node.storage.state.value,
    )


def _summary(nodes: Nodes, quorum: QuorumDescription | None) -> str:
    failures = [answer for _, answer in nodes if isinstance(answer, CommandFailed)]
    up = len(nodes) - len(failures)
    if quorum is None:
        reason = f": {failures[-1]}" if failures else ""
        return f"{up}/{len(nodes)} nodes answer{reason}"
    voters = " ".join(
        f"{voter.id}{'*' if voter.id == quorum.leader_id else ''}"
        f"{'' if voter.caught_up or quorum.leader_id is None else '(behind)'}"
        for voter in quorum.voters
    )
    leader = "no leader" if quorum.leader_id is None else f"leader {quorum.leader_id}"
    pending = ", change pending" if quorum.pending_change else ""
    if quorum.target_voters is not None:
        pending = f", target {render.targets(quorum)}"
    return (
        f"{up}/{len(nodes)} nodes answer, {leader}, epoch {quorum.leader_epoch},"
        f" voters [{voters}], high watermark {quorum.high_watermark}{pending}"
    )


def _clock() -> str:
    return datetime.now(UTC).astimezone().strftime("%H:%M:%S")
