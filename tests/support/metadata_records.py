"""Short ways to write metadata records in tests."""

from quorum_node.records.metadata import ConfigRecord, FeatureLevelRecord


def config(resource_type: int, resource_name: str, name: str, value: str | None) -> ConfigRecord:
    """One config value."""
    return ConfigRecord(
        resource_type=resource_type, resource_name=resource_name, name=name, value=value
    )


def level(name: str, feature_level: int) -> FeatureLevelRecord:
    """A finalized feature level."""
    return FeatureLevelRecord(name=name, feature_level=feature_level)
