"""Declared columns as DDL for a Spark schema. PURE."""

from collections.abc import Mapping

_NAMES = {"timestamp": "timestamp_ltz"}
"""Names with one meaning. Which type `timestamp` is depends on a setting of Spark: `spark.sql.timestampType`."""


def ddl_of(columns: Mapping[str, str]) -> str:
    """Return columns as DDL. `columns`: name → type as text."""
    return ", ".join(f"`{name}` {_NAMES.get(kind, kind)}" for name, kind in columns.items())
