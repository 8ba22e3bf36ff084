"""The records that recreate a state, from the delta of all its records. PURE."""

from collections.abc import Iterator
from dataclasses import replace

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition import Partition
from quorum_node.records import metadata as md
from quorum_pipeline.deltas.delta import Delta, survives


def records_of(delta: Delta) -> Iterator[md.MetadataMessage]:
    """Yield the records of a completed delta without contradictions. A topic precedes its partitions; there is no other order.

    Topics whose name another one has taken are left out, as in a snapshot.
    """
    yield from (record for record in delta.puts.values() if record is not None)
    for broker in delta.brokers.values():
        if broker.registration is not None:
            yield broker.registration
    for name in delta.named:
        number = delta.holder(name)
        if number is None:
            continue
        live = delta.topics[number].live
        assert live is not None
        yield live.record
        for op in delta.partitions.get(number, {}).values():
            assert isinstance(op, Partition), "made by a record of the same topic"
            yield op
    for key, (offset, value) in delta.configs.items():
        if value is not None and survives(key, offset, delta.removed_names):
            kind, resource_name, name = key
            yield md.ConfigRecord(
                resource_type=kind, resource_name=resource_name, name=name, value=value
            )


def image_of(delta: Delta) -> ClusterImage:
    """Return the image of a node that replays these records."""
    image = ClusterImage().replay_all(records_of(delta))
    return replace(image, left_out=frozenset(delta.left_out))
