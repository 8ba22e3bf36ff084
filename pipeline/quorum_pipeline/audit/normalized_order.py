"""Records of a state with their unordered lists sorted. PURE.

Owns which lists are unordered. Stock Kafka writes them in hash order, so a snapshot may differ from the log only in
their order.
"""

from dataclasses import replace

from quorum_node.records import metadata as md

_UNORDERED = frozenset({"RegisterBrokerRecord", "RegisterControllerRecord", "ClientQuotaRecord"})


def with_sorted_lists(value: bytes) -> bytes:
    """Return a record with its unordered lists sorted."""
    if md.record_type_name(value[1]) not in _UNORDERED:
        return value
    record = md.decode_metadata(value)
    match record:
        case md.RegisterBrokerRecord():
            record = replace(
                record,
                end_points=tuple(sorted(record.end_points, key=lambda each: each.name)),
                features=tuple(sorted(record.features, key=lambda each: each.name)),
                log_dirs=tuple(sorted(record.log_dirs)),
            )
        case md.RegisterControllerRecord():
            record = replace(
                record,
                end_points=tuple(sorted(record.end_points, key=lambda each: each.name)),
                features=tuple(sorted(record.features, key=lambda each: each.name)),
            )
        case md.ClientQuotaRecord():
            parts = tuple(sorted(record.entity, key=lambda each: each.entity_type))
            record = replace(record, entity=parts)
    return md.encode_metadata(record, value[2])
