"""Starts and ends of partition conditions, as columns of many records. PURE.

The conditions are: no leader, recovery, replicas being added or removed. An edge that repeats the previous one is
dropped, so many changes of a partition become few rows. The state before the span is unknown, so first edges are
kept.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorum_node.records import metadata as md

NO_LEADER, RECOVERY, ADDING, REMOVING, NOTHING = KINDS = range(5)
"""Conditions of a partition: no leader; recovery; replicas being added; replicas being removed. NOTHING ends all of them."""
SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("kind", pa.int8()), ("on", pa.bool_()),
        ("offset", pa.int64()), ("time_ms", pa.int64()), ("leader", pa.int32()),
        ("replicas", pa.list_(pa.int32())), ("known", pa.bool_()),
    ]
)  # fmt: skip
"""`known`: the edge comes from a snapshot, so its condition began at or before `offset`."""
PARTITION_COLUMNS = {
    "topic_id": "string", "partition_id": "int", "leader": "int", "leader_recovery_state": "tinyint",
    "adding_replicas": "array<int>", "removing_replicas": "array<int>", "replicas": "array<int>",
}  # fmt: skip
"""Fields that are read of a PartitionRecord or PartitionChangeRecord."""
_Mask = npt.NDArray[np.bool_]


def partition_edges(records: pa.StructArray, offsets: pa.Array, times_ms: pa.Array) -> pa.Table:
    """Return the edges of PartitionRecords, which have all fields. `records` has PARTITION_COLUMNS."""
    leaderless, recovers, adds, removes = _states(records)
    nothing = ~(leaderless | recovers | adds | removes)
    all_rows = np.ones(len(records), np.bool_)
    parts = [_edges(records, offsets, times_ms, NOTHING, nothing, ~all_rows)]
    for kind, on in enumerate((leaderless, recovers, adds, removes)):
        parts.append(_edges(records, offsets, times_ms, kind, ~nothing, on))
    return pa.concat_tables(parts)


def change_edges(records: pa.StructArray, offsets: pa.Array, times_ms: pa.Array) -> pa.Table:
    """Return the edges of PartitionChangeRecords, in which most fields are absent. `records` has PARTITION_COLUMNS."""
    states = _states(records)
    set_by_record = (
        _numbers(records, "leader", md.LEADER_UNCHANGED) != md.LEADER_UNCHANGED,
        _numbers(records, "leader_recovery_state", md.RECOVERY_UNCHANGED) != md.RECOVERY_UNCHANGED,
        _is_there(records, "adding_replicas"),
        _is_there(records, "removing_replicas"),
    )
    return pa.concat_tables(
        [
            _edges(records, offsets, times_ms, kind, which, on)
            for kind, (which, on) in enumerate(zip(set_by_record, states, strict=True))
        ]
    )


def _states(records: pa.StructArray) -> tuple[_Mask, _Mask, _Mask, _Mask]:
    return (
        _numbers(records, "leader", md.LEADER_UNCHANGED) == md.NO_LEADER,
        _numbers(records, "leader_recovery_state", md.RECOVERY_UNCHANGED) == md.RECOVERING,
        _lengths(records, "adding_replicas") > 0,
        _lengths(records, "removing_replicas") > 0,
    )


def _numbers(records: pa.StructArray, name: str, default: int) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = pc.fill_null(
        records.field(name).cast(pa.int64()), default
    ).to_numpy()
    return found


def _lengths(records: pa.StructArray, name: str) -> npt.NDArray[np.int64]:
    lengths = pc.list_value_length(records.field(name)).cast(pa.int64())
    found: npt.NDArray[np.int64] = pc.fill_null(lengths, 0).to_numpy()
    return found


def _is_there(records: pa.StructArray, name: str) -> _Mask:
    found: _Mask = pc.is_valid(records.field(name)).to_numpy(zero_copy_only=False)
    return found


def _edges(
    records: pa.StructArray,
    offsets: pa.Array,
    times_ms: pa.Array,
    kind: int,
    which: _Mask,
    on: _Mask,
) -> pa.Table:
    rows = np.flatnonzero(which)
    if not len(rows):
        return SCHEMA.empty_table()
    chosen = pa.array(rows)
    some = on[rows]
    replicas = records.field("replicas").take(
        pa.array(rows, mask=~some)  # only rows that begin a condition have replicas
    )
    columns = [
        records.field("topic_id").take(chosen), records.field("partition_id").take(chosen),
        pa.array(np.full(len(rows), kind, np.int8)), pa.array(some), offsets.take(chosen),
        times_ms.take(chosen), pc.fill_null(records.field("leader"), md.LEADER_UNCHANGED).take(chosen),
        replicas, pa.array(np.zeros(len(rows), np.bool_)),
    ]  # fmt: skip
    return pa.table(
        [each.cast(field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def without_repetitions(edges: pa.Table, created: pa.Table, removed: pa.Table) -> pa.Table:
    """Return the edges without repetitions of the previous one; `created` and `removed`: created and removed topics of the same
    span, with `topic` and `offset`.

    All edges of a removed topic are kept: the removal ends its conditions.
    """
    if not len(edges):
        return edges
    topics = _topics(edges)
    codes = topics.indices.to_numpy()
    keys = _keys(edges)
    kinds, offsets = edges.column("kind").to_numpy(), edges.column("offset").to_numpy()
    on = edges.column("on").to_numpy()
    by_offset = np.lexsort((offsets, keys))
    # NOTHING ends all conditions, so equal values before and after it are no repetition.
    nothings = np.zeros(len(keys), np.int64)
    nothings[by_offset] = np.cumsum(kinds[by_offset] == NOTHING)
    order = np.lexsort((offsets, kinds, keys))
    same = (np.diff(keys[order]) == 0) & (np.diff(kinds[order]) == 0)
    same &= np.diff(nothings[order]) == 0
    again = np.concatenate([[False], same & (on[order][1:] == on[order][:-1])])
    again &= kinds[order] != NOTHING
    # A partition of a topic created in this log had no state before its first record.
    first = np.zeros(len(keys), np.bool_)
    first[by_offset] = np.concatenate([[True], np.diff(keys[by_offset]) != 0])
    created_at = _first_offsets(topics.dictionary, created)[codes]
    drop = (kinds == NOTHING) & first & (created_at < offsets)
    drop[order] |= again
    was_removed = np.asarray(pc.is_in(topics.dictionary, removed.column("topic").combine_chunks()))[
        codes
    ]
    return edges.filter(pa.array(~(drop & ~(was_removed & (kinds != NOTHING)))))


def _topics(edges: pa.Table) -> pa.DictionaryArray:
    return pa.concat_arrays(
        [pa.array([], pa.string()), *edges.column("topic").chunks]
    ).dictionary_encode()


def _keys(edges: pa.Table) -> npt.NDArray[np.int64]:
    """Return a number for each edge that identifies its partition."""
    codes = _topics(edges).indices.to_numpy().astype(np.int64)
    found: npt.NDArray[np.int64] = codes << 32 | edges.column("partition").to_numpy()
    return found


def _first_offsets(topics: pa.Array, created: pa.Table) -> npt.NDArray[np.int64]:
    """Return the offset at which each topic was created; the maximum int64 if it was not created in this span."""
    found = np.full(len(topics), np.iinfo(np.int64).max)
    places = pc.index_in(created.column("topic").combine_chunks(), topics)
    known = pc.is_valid(places).to_numpy(zero_copy_only=False)
    rows = places.drop_null().to_numpy()
    np.minimum.at(found, rows, created.column("offset").to_numpy()[known])
    return found


def with_conditions(
    tables: Sequence[pa.Table],
) -> Iterator[tuple[str, int, list[dict[str, object]]]]:
    """Yield topic, partition and edges, in order of offsets, of each partition that had a condition."""
    every = pa.concat_tables([SCHEMA.empty_table(), *tables])
    keys = _keys(every)
    begun = every.column("on").to_numpy()
    mine = every.filter(pa.array(np.isin(keys, keys[begun])))
    mine = mine.sort_by(
        [
            *((name, "ascending") for name in ("topic", "partition", "offset")),
            ("known", "descending"),
            ("kind", "ascending"),
        ]
    )
    rows = mine.to_pylist()
    begin = 0
    for at in range(1, len(rows) + 1):
        last = rows[at - 1]["topic"], rows[at - 1]["partition"]
        if at == len(rows) or (rows[at]["topic"], rows[at]["partition"]) != last:
            yield (*last, rows[begin:at])
            begin = at
