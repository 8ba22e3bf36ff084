"""The cluster's metadata as one immutable value. PURE.

Only replay changes it: the same records give an equal image on every replica (K631-05). A reference to an image is a
frozen copy at no cost. Must not know commits (`committed.py`) nor decisions.
Two images of one offset give the same snapshot records (K595-30): they are sorted, and contain no time of a clock.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from quorum_node.image.access import AclsImage, DelegationTokensImage, ScramImage
from quorum_node.image.brokers import BrokersImage, ControllersImage
from quorum_node.image.changes import ImageChanges
from quorum_node.image.configs import ConfigsImage
from quorum_node.image.features import FeaturesImage
from quorum_node.image.quotas import ClientQuotasImage, ProducerIdsImage
from quorum_node.image.topics import TopicsImage
from quorum_node.made_often import made_often
from quorum_node.records.metadata import (
    AnyMetadata,
    MetadataMessage,
    metadata_encoder,
    record_version,
)


@made_often
@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The state after all records so far.

    `left_out`: types of replayed records that the image does not contain. A snapshot would lose them, so none may be
    written.
    """

    features: FeaturesImage = field(default_factory=FeaturesImage)
    brokers: BrokersImage = field(default_factory=BrokersImage)
    controllers: ControllersImage = field(default_factory=ControllersImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    client_quotas: ClientQuotasImage = field(default_factory=ClientQuotasImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    acls: AclsImage = field(default_factory=AclsImage)
    scram: ScramImage = field(default_factory=ScramImage)
    delegation_tokens: DelegationTokensImage = field(default_factory=DelegationTokensImage)
    left_out: frozenset[str] = frozenset()

    def with_parts(self, parts: dict[str, Any]) -> "ClusterImage":
        """The image with some parts replaced. Called after every batch; faster than `replace`."""
        values = list(_parts_of(self))
        for name, part in parts.items():
            values[_PLACES[name]] = part
        return ClusterImage(*values)

    def replay(self, record: AnyMetadata) -> "ClusterImage":
        """The image after one more record."""
        return self.replay_all((record,))

    def replay_all(self, records: Iterable[AnyMetadata]) -> "ClusterImage":
        """The image after more records: cheaper than one by one. Transaction boundaries are ignored here."""
        changes = ImageChanges(self)
        for record in records:
            changes.replay(record)
        return changes.finish()

    def snapshot_messages(self) -> Iterator[MetadataMessage]:
        """Records that create this image, in the same order on all replicas; features come first."""
        return (each for each in self._snapshot_messages() if each is not None)

    def _snapshot_messages(self) -> Iterator[MetadataMessage | None]:
        level = self.features.metadata_version
        yield from self.features.snapshot_records()
        yield from self.brokers.snapshot_records(level)
        yield from self.controllers.snapshot_records(level)
        yield from self.topics.snapshot_records(level)
        yield from self.configs.snapshot_records()
        yield from self.client_quotas.snapshot_records()
        yield from self.producer_ids.snapshot_records()
        yield from self.acls.snapshot_records()
        yield from self.scram.snapshot_records(level)
        yield from self.delegation_tokens.snapshot_records(level)

    def snapshot_records(self) -> Iterator[bytes]:
        """These records as values of the log, in the versions of the finalized level."""
        return (value for value in self.snapshot_with_pauses() if value is not None)

    def snapshot_with_pauses(self) -> Iterator[bytes | None]:
        """These values, with None as a pause now and then, so that the caller can run other work."""
        level = self.features.metadata_version
        encoders: dict[type[MetadataMessage], Callable[[MetadataMessage], bytes]] = {}
        for record in self._snapshot_messages():
            if record is None:
                yield None
                continue
            kind = type(record)
            encode = encoders.get(kind)
            if encode is None:
                encode = encoders[kind] = metadata_encoder(kind, record_version(kind, level))
            yield encode(record)


_NAMES = tuple(each.name for each in fields(ClusterImage))
_PLACES = {name: place for place, name in enumerate(_NAMES)}
_parts_of = attrgetter(*_NAMES)
