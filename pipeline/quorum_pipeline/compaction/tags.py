"""Tags and versions of the fields of records that compiled loops read. Data only.

Source: the definitions of Kafka's metadata records (`PartitionRecord.json`, `PartitionChangeRecord.json`,
`RegisterBrokerRecord.json`, `BrokerRegistrationChangeRecord.json`), whose declarations are in
`quorum_node.records.metadata`: `tag` and `since`. A test compares them. KIP-482: a tag is the number of a tagged field.
"""

PARTITION_RECOVERY, PARTITION_ELR, PARTITION_LAST_KNOWN_ELR = 0, 1, 2
"""Tags of PartitionRecord."""
PARTITION_DIRECTORIES_SINCE, PARTITION_ELR_SINCE = 1, 2
"""First versions of PartitionRecord with these fields (KIP-858, KIP-966)."""

CHANGE_ISR, CHANGE_LEADER, CHANGE_REPLICAS, CHANGE_REMOVING, CHANGE_ADDING = 0, 1, 2, 3, 4
CHANGE_RECOVERY, CHANGE_ELR, CHANGE_LAST_KNOWN_ELR, CHANGE_DIRECTORIES = 5, 6, 7, 8
"""Tags of PartitionChangeRecord."""
CHANGE_DIRECTORIES_SINCE, CHANGE_ELR_SINCE = 1, 2
"""First versions of PartitionChangeRecord with these fields."""

BROKER_LOG_DIRS, BROKER_CORDONED_LOG_DIRS = 0, 1
"""Tags of RegisterBrokerRecord."""
BROKER_SHUTDOWN_SINCE, BROKER_MIGRATING_SINCE = 1, 2
BROKER_LOG_DIRS_SINCE, BROKER_CORDONED_SINCE = 3, 4
"""First versions of RegisterBrokerRecord with these fields: in controlled shutdown, migrating ZooKeeper broker, directories."""

BROKER_CHANGE_FENCED, BROKER_CHANGE_SHUTDOWN = 0, 1
BROKER_CHANGE_LOG_DIRS, BROKER_CHANGE_CORDONED_LOG_DIRS = 2, 3
"""Tags of BrokerRegistrationChangeRecord. Each field is there since the version whose number equals its tag."""
