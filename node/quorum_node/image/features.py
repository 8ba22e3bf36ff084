"""Finalized feature levels. PURE.

Owns the levels. That of metadata.version determines the versions of records (K631-13).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from immutables import Map

from quorum_node.records.metadata import (
    LATEST_LEVEL,
    METADATA_VERSION,
    FeatureLevelRecord,
    MetadataMessage,
)


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Feature name → level; a feature without a level is not finalized."""

    levels: Map[str, int] = Map()

    def level(self, name: str) -> int:
        """Finalized level of a feature, 0 for none."""
        return self.levels.get(name, 0)

    @property
    def metadata_version(self) -> int:
        """Level that records are written at; the newest if none is finalized."""
        return self.levels.get(METADATA_VERSION, 0) or LATEST_LEVEL

    def replay_level(self, record: FeatureLevelRecord) -> "FeaturesImage":
        """Set the level of a feature; 0 removes it."""
        if record.feature_level:
            return FeaturesImage(self.levels.set(record.name, record.feature_level))
        if record.name in self.levels:
            return FeaturesImage(self.levels.delete(record.name))
        return self

    def snapshot_records(self) -> Iterator[MetadataMessage]:
        """metadata.version comes first: it is needed to read the rest."""
        for name in sorted(self.levels, key=lambda each: (each != METADATA_VERSION, each)):
            yield FeatureLevelRecord(name=name, feature_level=self.levels[name])
