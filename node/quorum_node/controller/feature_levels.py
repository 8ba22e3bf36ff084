"""Features of this controller: supported levels, and initial levels of a new cluster. PURE.

Owns names and ranges. Must not know how levels are changed (`features.py`), nor which record
versions a level requires (`records/metadata/metadata_version.py`).
Source: KIP-584, KIP-778 and KIP-1022 as shipped in Kafka 4.3, whose newest production level is
4.3-IV0. With `eligible.leader.replicas.version` 1 (KIP-966) the controller tracks eligible leader
replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from quorum_node.records.metadata import LATEST_LEVEL, LOWEST_LEVEL, METADATA_VERSION
from quorum_node.records.metadata.metadata_version import ELIGIBLE_LEADER_REPLICAS_LEVEL

KRAFT_VERSION = "kraft.version"
"""kraft.version belongs to the quorum, not to the controller."""

ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
"""At level 1 a replica that leaves an ISR of minimal size can still be elected (KIP-966)."""

BROKER_OF_THIS_SOFTWARE = "metadataquorum.broker"
"""A feature that only brokers of this software register, so that controllers can distinguish them. It has no finalized level."""

METADATA_VERSION_NAMES = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0", 13: "3.6-IV1",
    14: "3.6-IV2", 15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3", 19: "3.7-IV4", 20: "3.8-IV0",
    21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1",
    28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """Levels of one feature that are supported, both ends inclusive."""

    min_level: int
    max_level: int

    def __contains__(self, level: int) -> bool:
        return self.min_level <= level <= self.max_level

    def __str__(self) -> str:
        return f"{self.min_level} to {self.max_level}"


SUPPORTED: Mapping[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(LOWEST_LEVEL, LATEST_LEVEL),
    ELIGIBLE_LEADER_REPLICAS: FeatureRange(0, 1),
    "group.version": FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
    "transaction.version": FeatureRange(0, 2),
}
"""Features that this controller supports."""

ANNOUNCED: Mapping[str, FeatureRange] = {KRAFT_VERSION: FeatureRange(0, 1), **SUPPORTED}
"""Features that a node reports in ApiVersions and in its controller registration."""

LOWEST_METADATA_VERSION: Mapping[str, int] = {
    ELIGIBLE_LEADER_REPLICAS: ELIGIBLE_LEADER_REPLICAS_LEVEL
}
"""Features whose levels above 0 require a metadata.version, as they write records in its format."""

OF_A_NEW_CLUSTER: Mapping[str, int] = {
    METADATA_VERSION: LATEST_LEVEL,
    ELIGIBLE_LEADER_REPLICAS: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}

OF_A_BROKER: Mapping[str, FeatureRange] = {
    **ANNOUNCED,
    BROKER_OF_THIS_SOFTWARE: FeatureRange(0, 1),
}
"""Features that a broker registers. Stock controllers accept an unknown feature if its lowest level is 0."""
