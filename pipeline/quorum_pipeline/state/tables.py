"""A state as tables: brokers, topics, partitions, configs, voters, access control entries, features, quotas. PURE.

Owns the set of tables, their columns, and the key of a row. There are no secrets: no table contains credentials.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from immutables import Map

from quorum_node.host_port import HostPort
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.configs import ConfigKey
from quorum_node.image.partition import Partition
from quorum_node.image.quotas import Entity
from quorum_node.image.resource_types import resource_type_name, resource_type_number
from quorum_node.image.topics import Topic
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import parse_uuid, uuid_text
from quorum_node.records.metadata import AccessControlEntryRecord, RegisterBrokerRecord
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.rows.declared import plain

Row = dict[str, Any]


class Imaged(Protocol):
    """A state, or a part of one."""

    @property
    def image(self) -> ClusterImage:
        """Brokers, topics, configs and all other metadata."""

    @property
    def voters(self) -> VotersRecord | None:
        """The current voters."""


class Tables(Protocol):
    """A state as tables, independent of where their rows are made."""

    def rows(self, table: "StateTable") -> Iterator[Row]:
        """Yield the rows of a table in order."""

    def count(self, table: "StateTable") -> int:
        """Return the number of rows of a table."""


@dataclass(frozen=True, slots=True)
class StateTable:
    """A table of a state. `columns`: name → type, as in Spark and Hive; `key`: columns that identify a row.

    `rows`: yields the rows in order; `count`: returns their number without making them; `order`: returns the sort key of a row.
    """

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]
    rows: Callable[[Imaged], Iterator[Row]]
    count: Callable[[Imaged], int]
    order: Callable[[Row], tuple[Any, ...]]


def broker_row(broker: RegisterBrokerRecord, replicas: int) -> Row:
    """Return a row of `brokers`."""
    return {
        "broker_id": broker.broker_id,
        "rack": broker.rack,
        "fenced": broker.fenced,
        "in_controlled_shutdown": broker.in_controlled_shutdown,
        "broker_epoch": broker.broker_epoch,
        "incarnation_id": uuid_text(broker.incarnation_id),
        "endpoints": [
            f"{each.name}://{HostPort(each.host, each.port)}" for each in broker.end_points
        ],
        "log_dirs": plain(broker.log_dirs),
        "replicas": replicas,
    }


def topic_row(topic: Topic) -> Row:
    """Return a row of `topics`."""
    return {
        "topic_id": uuid_text(topic.topic_id),
        "name": topic.name,
        "partitions": len(topic.partitions),
    }


def partition_row(topic: Topic, partition_id: int, partition: Partition) -> Row:
    """Return a row of `partitions`."""
    return {
        "topic_id": uuid_text(topic.topic_id),
        "topic": topic.name,
        "partition_id": partition_id,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "adding_replicas": list(partition.adding_replicas),
        "removing_replicas": list(partition.removing_replicas),
        "directories": plain(partition.directories),
        "eligible_leader_replicas": list(partition.eligible_leader_replicas or ()),
        "last_known_elr": list(partition.last_known_elr or ()),
        "recovering": bool(partition.leader_recovery_state),
    }


def config_row(key: ConfigKey, value: str) -> Row:
    """Return a row of `configs`."""
    return {
        "resource_type": resource_type_name(key.resource_type),
        "resource_name": key.resource_name,
        "name": key.name,
        "value": value,
    }


def voter_rows(voters: VotersRecord | None) -> Iterator[Row]:
    """Yield all rows of `voters`."""
    for voter in voters.voters if voters else ():
        yield {
            "id": voter.key.id,
            "uuid": uuid_text(voter.key.uuid) if voter.key.uuid else None,
            "endpoints": [str(each) for each in voter.endpoints],
        }


def acl_row(entry: AccessControlEntryRecord) -> Row:
    """Return a row of `acls`."""
    return {
        "id": uuid_text(entry.id),
        "resource_type": entry.resource_type,
        "resource_name": entry.resource_name,
        "pattern_type": entry.pattern_type,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission_type,
    }


def feature_row(name: str, level: int) -> Row:
    """Return a row of `features`."""
    return {"name": name, "level": level}


def quota_row(entity: Entity, name: str, value: float) -> Row:
    """Return a row of `quotas`."""
    return {"entity": _entity_text(entity), "name": name, "value": value}


def _entity_text(entity: Entity) -> str:
    return ",".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)


def _brokers(state: Imaged) -> Iterator[Row]:
    for broker_id, broker in sorted(state.image.brokers.by_id.items()):
        yield broker_row(broker, state.image.topics.replica_count(broker_id))


def _topics(state: Imaged) -> Iterator[Row]:
    for name in state.image.topics.names():
        topic = state.image.topics.named(name)
        assert topic is not None
        yield topic_row(topic)


def _partitions(state: Imaged) -> Iterator[Row]:
    for name in state.image.topics.names():
        topic = state.image.topics.named(name)
        assert topic is not None
        for partition_id, partition in sorted(topic.partitions.items()):
            yield partition_row(topic, partition_id, partition)


def _configs(state: Imaged) -> Iterator[Row]:
    for key, value in state.image.configs.entries():
        yield config_row(key, value)


def _voters(state: Imaged) -> Iterator[Row]:
    return voter_rows(state.voters)


def _acls(state: Imaged) -> Iterator[Row]:
    for number in sorted(state.image.acls.by_id):
        yield acl_row(state.image.acls.by_id[number])


def _features(state: Imaged) -> Iterator[Row]:
    for name, level in sorted(state.image.features.levels.items()):
        yield feature_row(name, level)


def _quotas(state: Imaged) -> Iterator[Row]:
    by_entity = state.image.client_quotas.by_entity
    for entity, quotas in sorted(by_entity.items(), key=lambda each: _entity_text(each[0])):
        for name, value in sorted(quotas.items()):
            yield quota_row(entity, name, value)


def _type_number(name: str) -> int:
    """Return the number of a resource type; a type without a name is shown as its number."""
    return int(name) if name.removeprefix("-").isdecimal() else resource_type_number(name)


def _partition_count(state: Imaged) -> int:
    topics = (state.image.topics.named(name) for name in state.image.topics.ids)
    return sum(len(each.partitions) for each in topics if each is not None)


def _values_in(named: Map[Any, Map[str, Any]]) -> int:
    return sum(len(values) for values in named.values())


_INTS = "array<int>"
_TEXTS = "array<string>"

STATE_TABLES = (
    StateTable(
        "brokers",
        {
            "broker_id": "int", "rack": "string", "fenced": "boolean",
            "in_controlled_shutdown": "boolean", "broker_epoch": "bigint",
            "incarnation_id": "string", "endpoints": _TEXTS, "log_dirs": _TEXTS, "replicas": "int",
        },
        ("broker_id",),
        _brokers,
        lambda state: len(state.image.brokers.by_id),
        lambda row: (row["broker_id"],),
    ),
    StateTable(
        "topics",
        {"topic_id": "string", "name": "string", "partitions": "int"},
        ("topic_id",),
        _topics,
        lambda state: len(state.image.topics.ids),
        lambda row: (row["name"],),
    ),
    StateTable(
        "partitions",
        {
            "topic_id": "string", "topic": "string", "partition_id": "int", "leader": "int",
            "leader_epoch": "int", "partition_epoch": "int", "replicas": _INTS, "isr": _INTS,
            "adding_replicas": _INTS, "removing_replicas": _INTS, "directories": _TEXTS,
            "eligible_leader_replicas": _INTS, "last_known_elr": _INTS, "recovering": "boolean",
        },
        ("topic_id", "partition_id"),
        _partitions,
        _partition_count,
        lambda row: (row["topic"], row["partition_id"]),
    ),
    StateTable(
        "configs",
        {"resource_type": "string", "resource_name": "string", "name": "string", "value": "string"},
        ("resource_type", "resource_name", "name"),
        _configs,
        lambda state: _values_in(state.image.configs.by_resource),
        lambda row: (_type_number(row["resource_type"]), row["resource_name"], row["name"]),
    ),
    StateTable(
        "voters", {"id": "int", "uuid": "string", "endpoints": _TEXTS}, ("id", "uuid"), _voters,
        lambda state: len(state.voters.voters) if state.voters else 0,
        lambda row: (),
    ),
    StateTable(
        "acls",
        {
            "id": "string", "resource_type": "int", "resource_name": "string",
            "pattern_type": "int", "principal": "string", "host": "string", "operation": "int",
            "permission_type": "int",
        },
        ("id",),
        _acls,
        lambda state: len(state.image.acls.by_id),
        lambda row: (parse_uuid(row["id"]).int,),
    ),
    StateTable(
        "features", {"name": "string", "level": "int"}, ("name",), _features,
        lambda state: len(state.image.features.levels),
        lambda row: (row["name"],),
    ),
    StateTable(
        "quotas",
        {"entity": "string", "name": "string", "value": "double"},
        ("entity", "name"),
        _quotas,
        lambda state: _values_in(state.image.client_quotas.by_entity),
        lambda row: (row["entity"], row["name"]),
    ),
)  # fmt: skip
"""In display order."""
SCHEMA_VERSION = 1
"""Version of the columns of all tables. A new version only adds columns and tables; existing ones keep name, type and meaning."""
TABLES_BY_NAME = {table.name: table for table in STATE_TABLES}


def table_named(name: str) -> StateTable:
    """Return a table by name. Raises PipelineError, which names the existing tables."""
    if name not in TABLES_BY_NAME:
        raise PipelineError(f"table is {name!r}; there are {', '.join(TABLES_BY_NAME)}")
    return TABLES_BY_NAME[name]
