"""`controller.quorum.voters`: the voters for the core, and log lines about the key's effect.

Uses the configuration and the voters in the directory. The rules are the core's (`raft/static_quorum.py`). Source: KIP-853,
"controller.quorum.voters"; KIP-595, "Bootstrapping Procedure".
"""

import structlog

from quorum_node.configuration.keys.listeners import CONTROLLER_LISTENER
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.storage.partition_directory import OpenPartition

_LOG = structlog.get_logger("quorum_node")


def static_voters(config: NodeConfig) -> tuple[Voter, ...]:
    """Ids and endpoints; the UUIDs are unknown."""
    return tuple(
        Voter(
            ReplicaKey(voter.id),
            (Endpoint(CONTROLLER_LISTENER, voter.address.host, voter.address.port),),
        )
        for voter in config.static_voters
    )


def log_static_voters(config: NodeConfig, partition: OpenPartition) -> None:
    """KIP-595: the configured voters are used only as long as no quorum is known.

    KIP-853: with the key set, no other ids can be added, even if a quorum is known.
    """
    if not config.static_voters:
        return
    configured = ",".join(str(voter) for voter in config.static_voters)
    known = known_voters(partition)
    if known:
        voters = ", ".join(str(voter.key) for voter in known)
        _LOG.info(
            f"controller.quorum.voters={configured} is out of date: the quorum has formed, and its voters"
            f" are in the log, here {voters}. The key still has one effect: while this node leads, only voter ids that"
            " it names can be added. To add others, replace it by controller.quorum.bootstrap.servers"
        )
    elif not config.may_bootstrap:
        _LOG.info(
            f"controller.quorum.voters={configured} is used only to find the quorum:"
            " formation.bootstrap=false prevents this node from forming one"
        )
    elif all(voter.id != config.node_id for voter in config.static_voters):
        _LOG.info(
            f"controller.quorum.voters={configured} does not name node.id={config.node_id}:"
            " this node is an observer"
        )
    else:
        _LOG.info(
            f"no quorum is known here yet: if none exists, the voters of controller.quorum.voters={configured}"
            " form one when all of them have answered each other"
        )


def known_voters(partition: OpenPartition) -> tuple[Voter, ...]:
    """The newest voters in the partition's files, committed or not; empty if there are none."""
    found = partition.state.current_voters
    for data in partition.log.control_batches:
        for batch in split_batches(data)[0]:
            for record in decode_records(batch):
                control = decode_control(record)
                if isinstance(control, VotersRecord):
                    found = control.voters
    return found
