"""The commands: one function per command, from parsed arguments to lines of output."""

import argparse
from collections.abc import Callable

from pydantic import BaseModel

from quorum_node.api import (
    AddVoterRequest,
    AppendResult,
    ConfigList,
    ConfigValue,
    DiscoveredBrokers,
    EndpointModel,
    LogPage,
    NodeDescription,
    PutConfigRequest,
    QuorumDescription,
    ResignRequest,
    ResignResult,
    SnapshotResult,
    VoterChangeResult,
    VoterHistory,
)
from quorum_node.host_port import parse_host_port
from quorum_node.quorumctl import render
from quorum_node.quorumctl.arguments import key_path, replica_uuid
from quorum_node.quorumctl.client import AdminClient, WrongUsage
from quorum_node.reassignment_api import PartitionDescriptions

Result = tuple[BaseModel, list[str]]
"""The document for --json, and the lines of text for the terminal."""
Command = Callable[[AdminClient, argparse.Namespace], Result]

_LOG_PAGE_RECORDS = 1000


def describe_summary(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """`describe`: leader, lag, current and target voters (KIP-595, "Describing Current Status")."""
    quorum = _quorum(client, confirmed=not arguments.unconfirmed)
    return quorum, render.summary(quorum)


def describe_status(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """`describe status`: the quorum, confirmed by a majority unless `--unconfirmed` is given."""
    quorum = _quorum(client, confirmed=not arguments.unconfirmed)
    return quorum, render.status(quorum)


def describe_replication(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Progress of every replica."""
    quorum = _quorum(client, confirmed=not arguments.unconfirmed)
    return quorum, render.replication(quorum)


def describe_local(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """`describe local`: one node's own view; needs no other node."""
    node = client.call(NodeDescription, "GET", "/v1/node")
    return node, render.local(node)


def discover(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """`discover`: addresses of the voters that the node has; needs no other node."""
    found = client.call(DiscoveredBrokers, "GET", "/v1/brokers")
    return found, render.discovered(found)


def add_voter(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Make a running, caught-up node a voter."""
    request = _newcomer(client, arguments)
    if arguments.expected_offset is not None:
        request = request.model_copy(
            update={
                "expected_offset": arguments.expected_offset,
                "expected_epoch": arguments.expected_epoch,
            }
        )
    result = client.call(VoterChangeResult, "POST", "/v1/voters", request)
    return result, [_changed(f"({request.id}, {request.uuid}) is a voter now", result)]


def remove_voter(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Remove one replica key from the voters."""
    result = client.call(
        VoterChangeResult,
        "DELETE",
        f"/v1/voters/{arguments.id}/{replica_uuid(arguments.uuid)}",
        expectedOffset=arguments.expected_offset,
        expectedEpoch=arguments.expected_epoch,
        timeoutMs=client.timeout_ms,
    )
    return result, [_changed(f"({arguments.id}, {arguments.uuid}) is not a voter any more", result)]


def resign(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Ask the leader to hand over leadership."""
    result = client.call(
        ResignResult, "POST", "/v1/resign", ResignRequest(successor_id=arguments.successor)
    )
    return result, [f"the leader of epoch {result.epoch} handed over"]


def put(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Set one value; returns after the commit."""
    if arguments.value is None and not arguments.delete:
        raise WrongUsage("the value is missing; use --delete to delete the key")
    if arguments.value is not None and arguments.delete:
        raise WrongUsage("a value and --delete can't be combined: give one of them")
    body = PutConfigRequest(value=arguments.value, timeout_ms=client.timeout_ms)
    result = client.call(AppendResult, "PUT", key_path(arguments.key), body)
    return result, [f"committed at offset {result.offset} in epoch {result.epoch}"]


def get(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """One value; linearizable unless another consistency is given."""
    found = client.call(
        ConfigValue,
        "GET",
        key_path(arguments.key),
        consistency=arguments.consistency,
        timeoutMs=client.timeout_ms,
    )
    if arguments.offset:
        return found, [found.value, render.read_at(found)]
    return found, [found.value]


def list_configs(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Values that one node has applied."""
    found = client.call(
        ConfigList,
        "GET",
        "/v1/configs",
        prefix=arguments.prefix,
        consistency=arguments.consistency,
        timeoutMs=client.timeout_ms,
    )
    return found, render.configs(found.entries)


def log(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Committed records of one node's own log."""
    wanted, records = arguments.max_records, []
    page = None
    for page in client.log_pages(LogPage, arguments.from_offset, _LOG_PAGE_RECORDS):
        records += page.records
        if len(records) >= wanted:
            break
    assert page is not None
    shown = records[:wanted]
    next_offset = shown[-1].offset + 1 if shown else page.next_offset
    whole = page.model_copy(update={"records": shown, "next_offset": next_offset})
    return whole, render.log_lines(shown)


def voter_history(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Every voter set of one node's log."""
    history = client.call(VoterHistory, "GET", "/v1/voter-history")
    return history, render.voter_history(history)


def reassignments(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """All partitions in reassignment, whatever started it."""
    found = client.call(
        PartitionDescriptions, "GET", "/v1/reassignments", timeoutMs=client.timeout_ms
    )
    return found, render.reassignments(found)


def snapshot(client: AdminClient, arguments: argparse.Namespace) -> Result:
    """Make the node write a snapshot of its own state now."""
    result = client.call(SnapshotResult, "POST", "/v1/snapshot", timeoutMs=client.timeout_ms)
    return result, render.snapshot(result)


def _quorum(client: AdminClient, *, confirmed: bool) -> QuorumDescription:
    return client.call(
        QuorumDescription,
        "GET",
        "/v1/quorum",
        confirmed=str(confirmed).lower(),
        timeoutMs=client.timeout_ms,
    )


def _newcomer(client: AdminClient, arguments: argparse.Namespace) -> AddVoterRequest:
    """The replica to be added: read from a node, or id, UUID and endpoints from the command line."""
    if arguments.node is not None:
        url = arguments.node.rstrip("/")
        node = client.call_one(url, NodeDescription, "GET", "/v1/node")
        return AddVoterRequest(
            id=node.node_id,
            uuid=node.replica_uuid,
            endpoints=node.endpoints,
            timeout_ms=client.timeout_ms,
            count_newcomer=arguments.count_newcomer,
        )
    if None in (arguments.id, arguments.uuid, arguments.controller):
        raise WrongUsage(
            "name the replica to add: --node http://host:8080, or --id, --uuid and --controller"
        )
    endpoints = [_endpoint("CONTROLLER", arguments.controller)]
    if arguments.admin_endpoint is not None:
        endpoints.append(_endpoint("ADMIN", arguments.admin_endpoint))
    return AddVoterRequest(
        id=arguments.id,
        uuid=arguments.uuid,
        endpoints=endpoints,
        timeout_ms=client.timeout_ms,
        count_newcomer=arguments.count_newcomer,
    )


def _endpoint(name: str, text: str) -> EndpointModel:
    try:
        address = parse_host_port(text)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    return EndpointModel(name=name, host=address.host, port=address.port)


def _changed(text: str, result: VoterChangeResult) -> str:
    position = result.voters_position
    return f"{text} (voters record at offset {position.offset}, epoch {position.epoch})"
