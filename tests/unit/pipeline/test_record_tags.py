"""Tags and versions in the compiled loops are those of the node's declarations (compaction/tags.py)."""

from dataclasses import fields

import pytest

from quorum_node.records import metadata as md
from quorum_node.schema.schema import FieldSpec
from quorum_pipeline.compaction import tags


def specs_of(record: type[md.MetadataMessage]) -> dict[str, FieldSpec]:
    return {each.name: each.metadata["wire"] for each in fields(record) if each.metadata}


DECLARED = {
    md.PartitionRecord: {
        "leader_recovery_state": tags.PARTITION_RECOVERY,
        "eligible_leader_replicas": tags.PARTITION_ELR,
        "last_known_elr": tags.PARTITION_LAST_KNOWN_ELR,
    },
    md.PartitionChangeRecord: {
        "isr": tags.CHANGE_ISR,
        "leader": tags.CHANGE_LEADER,
        "replicas": tags.CHANGE_REPLICAS,
        "removing_replicas": tags.CHANGE_REMOVING,
        "adding_replicas": tags.CHANGE_ADDING,
        "leader_recovery_state": tags.CHANGE_RECOVERY,
        "eligible_leader_replicas": tags.CHANGE_ELR,
        "last_known_elr": tags.CHANGE_LAST_KNOWN_ELR,
        "directories": tags.CHANGE_DIRECTORIES,
    },
    md.RegisterBrokerRecord: {
        "log_dirs": tags.BROKER_LOG_DIRS,
        "cordoned_log_dirs": tags.BROKER_CORDONED_LOG_DIRS,
    },
    md.BrokerRegistrationChangeRecord: {
        "fenced": tags.BROKER_CHANGE_FENCED,
        "in_controlled_shutdown": tags.BROKER_CHANGE_SHUTDOWN,
        "log_dirs": tags.BROKER_CHANGE_LOG_DIRS,
        "cordoned_log_dirs": tags.BROKER_CHANGE_CORDONED_LOG_DIRS,
    },
}


@pytest.mark.parametrize("record", DECLARED, ids=lambda record: record.__name__)
def test_tags_are_those_of_the_declaration(record: type[md.MetadataMessage]) -> None:
    declared = {name: each.tag for name, each in specs_of(record).items() if each.tag is not None}
    assert declared == DECLARED[record]


@pytest.mark.parametrize(
    ("record", "name", "since"),
    [
        (md.PartitionRecord, "directories", tags.PARTITION_DIRECTORIES_SINCE),
        (md.PartitionRecord, "eligible_leader_replicas", tags.PARTITION_ELR_SINCE),
        (md.PartitionRecord, "last_known_elr", tags.PARTITION_ELR_SINCE),
        (md.PartitionChangeRecord, "directories", tags.CHANGE_DIRECTORIES_SINCE),
        (md.PartitionChangeRecord, "eligible_leader_replicas", tags.CHANGE_ELR_SINCE),
        (md.PartitionChangeRecord, "last_known_elr", tags.CHANGE_ELR_SINCE),
        (md.RegisterBrokerRecord, "in_controlled_shutdown", tags.BROKER_SHUTDOWN_SINCE),
        (md.RegisterBrokerRecord, "is_migrating_zk_broker", tags.BROKER_MIGRATING_SINCE),
        (md.RegisterBrokerRecord, "log_dirs", tags.BROKER_LOG_DIRS_SINCE),
        (md.RegisterBrokerRecord, "cordoned_log_dirs", tags.BROKER_CORDONED_SINCE),
    ],
)
def test_versions_are_those_of_the_declaration(
    record: type[md.MetadataMessage], name: str, since: int
) -> None:
    assert specs_of(record)[name].since == since


def test_changes_of_a_broker_have_each_field_since_the_version_of_its_tag() -> None:
    for each in specs_of(md.BrokerRegistrationChangeRecord).values():
        assert each.tag is None or each.since == each.tag
