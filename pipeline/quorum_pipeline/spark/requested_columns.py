"""Checks the columns that a query requests of a data source against the declared ones.

The schema of a query may have fewer columns, and fewer fields of a structure. The check is done where rows are made,
so that planning a query does not load Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorum_pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def requested_columns(schema: StructType, declared: Mapping[str, str]) -> pa.Schema:
    """Return the requested columns as an Arrow schema. Raises PipelineError if one does not exist or has another type."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from quorum_pipeline.rows.column_types import arrow_schema

    requested, known = to_arrow_schema(schema, timezone="UTC"), arrow_schema(declared)
    for each, named in zip(requested, schema, strict=True):
        if each.name not in declared:
            raise PipelineError(
                f"there is no column {each.name!r}; the columns are {', '.join(declared)}"
            )
        if not _is_part(each.type, known.field(each.name).type):
            type_name = named.dataType.simpleString()
            raise PipelineError(
                f"the column {each.name!r} is {declared[each.name]}, so it can't be read as {type_name}"
            )
    return requested


def _is_part(requested: pa.DataType, known: pa.DataType) -> bool:
    import pyarrow.types as types

    if types.is_struct(requested) and types.is_struct(known):
        types_of = {each.name: each.type for each in known}
        return all(
            each.name in types_of and _is_part(each.type, types_of[each.name]) for each in requested
        )
    if types.is_list(requested) and types.is_list(known):
        return _is_part(requested.value_type, known.value_type)
    return bool(requested == known)
