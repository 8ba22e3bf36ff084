"""Text output: tables and lines. Pure: models in, lines out.

`status` and `replication` have the fields of the stock tool's `describe` (KIP-595, "Describe").
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from quorum_node.api import (
    AlterQuorumResult,
    ConfigEntry,
    ConfigValue,
    Consistency,
    DiscoveredBrokers,
    EndpointModel,
    LogRecord,
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    SnapshotDescription,
    SnapshotResult,
    StateDescription,
    VoterHistory,
)
from quorum_node.host_port import HostPort
from quorum_node.reassignment_api import PartitionDescriptions

_UNKNOWN = "-"


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Columns padded to their widest cell, separated by two blanks. Line breaks and other control characters of a cell
    are escaped, so a row is one line.
    """
    cells = [list(headers), *([_in_one_line(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _in_one_line(text: str) -> str:
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def fields(pairs: Sequence[tuple[str, object]]) -> list[str]:
    """`Name: value` lines with aligned values."""
    width = max(len(name) for name, _ in pairs) + 2
    return [f"{name + ':':<{width}}{value}" for name, value in pairs]


def reassignments(found: PartitionDescriptions) -> list[str]:
    """`reassignments`: one line per partition in reassignment."""
    if not found.partitions:
        return ["no partition is in reassignment"]
    rows = [
        (
            each.topic,
            each.partition,
            _listed(each.replicas),
            _listed(each.adding_replicas),
            _listed(each.removing_replicas),
            _listed(each.isr),
        )
        for each in found.partitions
    ]
    lines = table(("Topic", "Partition", "Replicas", "Adding", "Removing", "Isr"), rows)
    more = found.moving - len(rows)
    return [*lines, f"and {more} more"] if more > 0 else lines


def summary(quorum: QuorumDescription) -> list[str]:
    """`describe`, in the format of KIP-595, "Describing Current Status"."""
    return fields(
        [
            *_head(quorum),
            ("CurrentVoters", ids(quorum.voters)),
            ("TargetVoters", targets(quorum)),
        ]
    ) + _unconfirmed_note(quorum)


def altered(result: AlterQuorumResult) -> list[str]:
    """`alter`, in the format of KIP-595, "Altering Voters"."""
    return fields(
        [
            ("CurrentVoters", _listed(result.current_voters)),
            ("TargetVoters", _listed(result.target_voters or [])),
        ]
    )


def ids(replicas: Sequence[ReplicaStatus]) -> str:
    """Ids as text: `[0, 1, 2]`."""
    return _listed([replica.id for replica in replicas])


def targets(quorum: QuorumDescription) -> str:
    """Target voters of an AlterQuorum as text; `[]` if there is none."""
    return _listed([target.id for target in quorum.target_voters or []])


def status(quorum: QuorumDescription) -> list[str]:
    """`describe status`."""
    position = quorum.voters_position
    plan: list[tuple[str, object]] = []
    if quorum.target_voters is not None:
        plan = [("TargetVoters", targets(quorum)), ("Plan", quorum.plan or _UNKNOWN)]
    return fields(
        [
            ("ClusterId", quorum.cluster_id or _UNKNOWN),
            *_head(quorum),
            ("CurrentVoters", _replicas(quorum.voters)),
            *plan,
            ("CurrentObservers", _replicas(quorum.observers)),
            ("VotersRecord", f"offset {position.offset}, epoch {position.epoch}, "
             + ("committed" if position.committed else "not committed yet")),
            ("Formed", _formed(quorum)),
        ]
    ) + _unconfirmed_note(quorum)  # fmt: skip


def replication(quorum: QuorumDescription) -> list[str]:
    """`describe replication`."""
    headers = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LagTimeMs", "LastFetchMsAgo",
               "LastCaughtUpMsAgo", "Status", "CaughtUp", "IsReassignTarget")  # fmt: skip
    wanted = _target_keys(quorum)
    rows = [_replica_row(voter, _voter_status(voter, quorum), wanted) for voter in quorum.voters]
    rows += [_replica_row(each, "Observer" + _traits(each), wanted) for each in quorum.observers]
    return table(headers, rows)


def local(node: NodeDescription) -> list[str]:
    """`describe local`."""
    storage = node.storage
    free = _UNKNOWN if storage.free_bytes is None else f"{storage.free_bytes / 1e9:.1f} GB free"
    pairs: list[tuple[str, object]] = [
        ("NodeId", node.node_id),
        *([("Partition", f"{node.partition} of {node.partitions}")] if node.partitions > 1 else []),
        ("DirectoryId", node.replica_uuid),
        ("ClusterId", node.cluster_id or _UNKNOWN),
        ("Role", node.role.value + _local_traits(node)),
        ("LeaderId", _text(node.leader_id)),
        ("LeaderEpoch", node.leader_epoch),
        ("HighWatermark", node.high_watermark),
        ("LogStartOffset", node.log_start_offset),
        ("LogEndOffset", node.log_end_offset),
        ("LogEndEpoch", _text(node.log_end_epoch)),
        ("LatestSnapshot", _snapshot(node.latest_snapshot)),
        *_state(node.state),
        ("CaughtUp", "yes" if node.caught_up else "no"),
        ("Formed", "yes" if node.formed else "no"),
        ("Storage", f"{storage.state.value}, {free}" + _in_brackets(storage.detail)),
        ("Endpoints", ", ".join(_endpoint(endpoint) for endpoint in node.endpoints)),
        ("StartedAt", node.started_at),
        ("Version", node.version),
    ]
    return fields(pairs)


def _state(state: StateDescription | None) -> list[tuple[str, object]]:
    if state is None:
        return []
    consistent = "" if state.consistent else " (not consistent yet: a snapshot is being loaded)"
    pairs: list[tuple[str, object]] = [("AppliedOffset", f"{state.applied_offset}{consistent}")]
    if state.caught_up_age_ms is not None:
        pairs.append(("LastCaughtUpMsAgo", state.caught_up_age_ms))
    return pairs


def discovered(found: DiscoveredBrokers) -> list[str]:
    """`discover`."""
    rows = [
        (b.id, b.uuid or _UNKNOWN, str(HostPort(b.host, b.port)), _boot_text(b.boot_timestamp_ms))
        for b in found.brokers
    ]
    leader = fields(
        [
            ("ClusterId", found.cluster_id or _UNKNOWN),
            ("LeaderId", _text(found.leader_id)),
            ("LeaderEpoch", found.leader_epoch),
        ]
    )
    return [*leader, "", *table(("NodeId", "DirectoryId", "Controller", "BootTimestamp"), rows)]


def _boot_text(boot_timestamp_ms: int | None) -> str:
    if boot_timestamp_ms is None:
        return "unknown; from the voters record"
    booted = datetime.fromtimestamp(boot_timestamp_ms / 1000, UTC)
    return booted.isoformat(timespec="milliseconds")


def snapshot(result: SnapshotResult) -> list[str]:
    """`snapshot`."""
    did = "wrote" if result.written else "nothing new since"
    start = f"its log starts at offset {result.log_start_offset}"
    return [f"node {result.node_id}: {did} snapshot {_snapshot(result.snapshot)}; {start}"]


def _snapshot(snapshot: SnapshotDescription | None) -> str:
    if snapshot is None:
        return "none"
    return f"{snapshot.end_offset}-{snapshot.epoch}, {snapshot.size_bytes} bytes"


def configs(entries: Sequence[ConfigEntry]) -> list[str]:
    """`list`."""
    rows = [(e.resource_type, e.resource_name or "-", e.name, e.value) for e in entries]
    return table(("Type", "Resource", "Name", "Value"), rows)


def read_at(found: ConfigValue) -> str:
    """`get --offset`: offset and age of the value."""
    if found.consistency is Consistency.LINEARIZABLE:
        return f"as of offset {found.offset}, confirmed by the leader"
    age = "an unknown time" if found.age_ms is None else f"at most {found.age_ms} ms"
    return f"as of offset {found.offset}, {age} behind its leader"


def log_lines(records: Sequence[LogRecord]) -> list[str]:
    """`log`: one line per record."""
    return [
        f"{record.offset:>10}  epoch {record.epoch:<5} {record.type:<18} "
        + json.dumps(record.fields, separators=(", ", ": "))
        for record in records
    ]


def voter_history(history: VoterHistory) -> list[str]:
    """`voter-history`: every voter set of the log, and the difference to the one before."""
    rows: list[tuple[object, ...]] = []
    before: set[str] = set()
    for entry in history.history:
        keys = [f"{voter.id}:{voter.uuid}" for voter in entry.voters]
        added = ["+" + key for key in keys if key not in before]
        removed = ["-" + key for key in sorted(before) if key not in keys]
        state = "committed" if entry.committed else "pending"
        change = " ".join(added + removed) or "endpoints"
        rows.append((entry.offset, entry.epoch, state, len(keys), change))
        before = set(keys)
    return table(("Offset", "Epoch", "State", "Voters", "Change"), rows)


def _head(quorum: QuorumDescription) -> list[tuple[str, object]]:
    followers = [voter for voter in quorum.voters if voter.uuid != quorum.leader_uuid]
    lags = [voter.lag for voter in followers if voter.lag >= 0]
    ages = [v.last_caught_up_age_ms or 0 for v in followers if v.lag > 0]
    return [
        *([("Partition", quorum.partition)] if quorum.partition else []),
        ("LeaderId", _text(quorum.leader_id)),
        ("LeaderEpoch", quorum.leader_epoch),
        *([("RecoveredEpoch", quorum.recovered_epoch)] if quorum.recovered_epoch else []),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", max(lags, default=0)),
        ("MaxFollowerLagTimeMs", max(ages, default=0)),
    ]


def _unconfirmed_note(quorum: QuorumDescription) -> list[str]:
    if quorum.confirmed:
        return []
    return [f"(not confirmed by a majority: present view of node {quorum.node_id})"]


def _target_keys(quorum: QuorumDescription) -> set[tuple[int, str]]:
    """The replicas that an entry of the target means: by UUID, else the newest voter with the id,
    else observers.
    """
    found: set[tuple[int, str]] = set()
    for target in quorum.target_voters or []:
        voters = [each for each in quorum.voters if each.id == target.id]
        observers = [each for each in quorum.observers if each.id == target.id]
        if target.uuid is not None:
            found.add((target.id, target.uuid))
        else:
            found |= {(each.id, each.uuid) for each in voters[-1:] or observers}
    return found


def _listed(numbers: Sequence[int]) -> str:
    return "[" + ", ".join(str(number) for number in numbers) + "]"


def _replicas(replicas: Sequence[ReplicaStatus]) -> str:
    items = [
        json.dumps(
            {
                "id": replica.id,
                "directoryId": replica.uuid,
                "endpoints": [_endpoint(endpoint) for endpoint in replica.endpoints],
            }
        )
        for replica in replicas
    ]
    return "[" + ", ".join(items) + "]"


def _replica_row(
    replica: ReplicaStatus, role: str, wanted: set[tuple[int, str]]
) -> tuple[object, ...]:
    known = replica.log_end_offset >= 0
    return (
        replica.id,
        replica.uuid,
        replica.log_end_offset if known else _UNKNOWN,
        replica.lag if known else _UNKNOWN,
        0 if known and replica.lag == 0 else _text(replica.last_caught_up_age_ms),
        _text(replica.last_fetch_age_ms),
        _text(replica.last_caught_up_age_ms),
        role,
        "yes" if replica.caught_up else "no",
        "Yes" if (replica.id, replica.uuid) in wanted else "No",
    )


def _voter_status(voter: ReplicaStatus, quorum: QuorumDescription) -> str:
    is_leader = (voter.id, voter.uuid) == (quorum.leader_id, quorum.leader_uuid)
    return ("Leader" if is_leader else "Follower") + _traits(voter)


def _traits(replica: ReplicaStatus) -> str:
    """Notes on a replica: stock Kafka, lost records, damaged records, witness."""
    traits = ["witness"] if replica.witness else ["stock Kafka"] if replica.stock else []
    if replica.went_back is not None:
        lost = replica.went_back
        traits.append(f"went back from offset {lost.acknowledged_offset} to {lost.offset}")
    if replica.damaged_from is not None:
        traits.append(f"receives damaged records from offset {replica.damaged_from} on")
    return _in_brackets(", ".join(traits))


def _local_traits(node: NodeDescription) -> str:
    traits = [] if node.is_voter else ["no voter"]
    if node.witness:
        traits.append("witness: never campaigns")
    return _in_brackets(", ".join(traits))


def _formed(quorum: QuorumDescription) -> str:
    if quorum.formed:
        return "yes"
    return f"no, {len(quorum.voters)} of {quorum.initial_voters} initial voters have joined"


def _endpoint(endpoint: EndpointModel) -> str:
    return f"{endpoint.name}://{HostPort(endpoint.host, endpoint.port)}"


def _text(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)


def _in_brackets(text: str | None) -> str:
    return f" ({text})" if text else ""
