"""What carrying out a decision does: the values to append, and the image after them. PURE.

Owns everything that depends only on the decision and the image that it was made on, so that a thread can do it. Must not know the
controller's state (`active_controller.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from quorum_node.controller.decision import Decision
from quorum_node.controller.unclean_elections import unclean_elections
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.metadata import MetadataMessage, encode_metadata, record_version
from quorum_node.server.controller.speculative_images import (
    Step,
    are_outside_transactions,
    decode_to_same,
)
from quorum_node.server.partition.port import MAX_BATCH_BYTES, TooLarge


@dataclass(frozen=True, slots=True)
class Planned:
    """`before`: the image that was decided on. `after`: the same with the records. `chunks`: the values of each append.

    `step`: the effect of the only append, if replay is certain to have the same. `unclean`: number of unclean elections. `too_large`: the
    reason why it can't be carried out.
    """

    decision: Decision
    before: ClusterImage
    after: ClusterImage
    chunks: tuple[tuple[bytes, ...], ...] = ()
    step: Step | None = None
    unclean: int = 0
    too_large: TooLarge | None = None


def plan(decision: Decision, image: ClusterImage) -> Planned:
    """The plan for a decision on this image."""
    records = decision.records
    if not records:
        return Planned(decision, image, image)
    values = _encoded(records, image.features.metadata_version)
    total_bytes = sum(map(len, values))
    if total_bytes > MAX_BATCH_BYTES and (
        decision.atomic or max(map(len, values)) > MAX_BATCH_BYTES
    ):
        return Planned(decision, image, image, too_large=TooLarge(total_bytes))
    after = image.replay_all(records)
    chunks = _chunks(values) if total_bytes > MAX_BATCH_BYTES else (tuple(values),)
    is_certain = (
        len(chunks) == 1 and are_outside_transactions(records) and decode_to_same(records, values)
    )
    step = Step(image, after) if is_certain else None
    return Planned(decision, image, after, chunks, step, unclean_elections(image, records))


def _encoded(records: Sequence[MetadataMessage], level: int) -> list[bytes]:
    versions = {kind: record_version(kind, level) for kind in set(map(type, records))}
    return [encode_metadata(record, versions[type(record)]) for record in records]


def _chunks(values: Sequence[bytes]) -> tuple[tuple[bytes, ...], ...]:
    """Whole values, grouped into as few batches as possible."""
    chunks: list[tuple[bytes, ...]] = []
    chunk: list[bytes] = []
    size_bytes = 0
    for value in values:
        if chunk and size_bytes + len(value) > MAX_BATCH_BYTES:
            chunks.append(tuple(chunk))
            chunk, size_bytes = [], 0
        chunk.append(value)
        size_bytes += len(value)
    return (*chunks, tuple(chunk))
