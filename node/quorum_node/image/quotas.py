"""Client quotas, and the next block of producer ids. PURE."""

from collections.abc import Iterator
from dataclasses import dataclass

from immutables import Map

from quorum_node.image.ordering import sorted_lazily
from quorum_node.records.metadata import (
    ClientQuotaRecord,
    MetadataMessage,
    ProducerIdsRecord,
    QuotaEntity,
)

Entity = tuple[tuple[str, str | None], ...]
"""(type, name or None for the default), sorted by type."""
_NO_QUOTAS: Map[str, float] = Map()


def entity_of(record: ClientQuotaRecord) -> Entity:
    """The entity of a quota, in canonical order."""
    parts = {each.entity_type: each.entity_name for each in record.entity}
    return tuple(sorted(parts.items(), key=lambda part: part[0]))


@dataclass(frozen=True, slots=True)
class ClientQuotasImage:
    """Entity → quota → value; an entity without quotas does not exist."""

    by_entity: Map[Entity, Map[str, float]] = Map()

    def replay_quota(self, record: ClientQuotaRecord) -> "ClientQuotasImage":
        """Set or remove a quota."""
        entity = entity_of(record)
        quotas = self.by_entity.get(entity, _NO_QUOTAS)
        if not record.remove:
            quotas = quotas.set(record.key, record.value)
        elif record.key in quotas:
            quotas = quotas.delete(record.key)
        if quotas:
            return ClientQuotasImage(self.by_entity.set(entity, quotas))
        if entity in self.by_entity:
            return ClientQuotasImage(self.by_entity.delete(entity))
        return self

    def snapshot_records(self) -> Iterator[MetadataMessage]:
        """One for each quota."""
        # No name comes before the empty one.
        by_order = {
            tuple((kind, name is not None, name or "") for kind, name in entity): entity
            for entity in self.by_entity
        }
        for order in sorted_lazily(by_order):
            entity = by_order[order]
            parts = tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity)
            for key, value in sorted(self.by_entity[entity].items()):
                yield ClientQuotaRecord(entity=parts, key=key, value=value)


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """The id at which the next block begins; None: no block was allocated yet."""

    next_producer_id: int | None = None

    def replay_block(self, record: ProducerIdsRecord) -> "ProducerIdsImage":
        """A block was allocated to a broker."""
        return ProducerIdsImage(record.next_producer_id)

    def snapshot_records(self) -> Iterator[MetadataMessage]:
        """Start of the next block. The owner of the last one is not needed any more."""
        if self.next_producer_id is not None:
            yield ProducerIdsRecord(
                broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id
            )
