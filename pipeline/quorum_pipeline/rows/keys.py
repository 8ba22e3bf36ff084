"""A key for the subject of a record, to group rows by it. PURE.

Owns the form: `broker/1`, `topic/ID`, `partition/ID/0`, `config/topic/NAME/KEY`. Records without a lasting subject
have none. Slashes in names are not escaped: the key is for grouping, not for parsing.
"""

import re
from typing import Any

import pyarrow as pa

from quorum_node.image.resource_types import resource_type_name
from quorum_node.records import metadata as md
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord
from quorum_pipeline.rows.column_arrays import joined
from quorum_pipeline.rows.declared import plain

_FORMS: dict[type, str] = {
    md.RegisterBrokerRecord: "broker/{broker_id}",
    md.UnregisterBrokerRecord: "broker/{broker_id}",
    md.FenceBrokerRecord: "broker/{id}",
    md.UnfenceBrokerRecord: "broker/{id}",
    md.BrokerRegistrationChangeRecord: "broker/{broker_id}",
    md.RegisterControllerRecord: "controller/{controller_id}",
    md.TopicRecord: "topic/{topic_id}",
    md.RemoveTopicRecord: "topic/{topic_id}",
    md.PartitionRecord: "partition/{topic_id}/{partition_id}",
    md.PartitionChangeRecord: "partition/{topic_id}/{partition_id}",
    md.ConfigRecord: "config/{resource_type}/{resource_name}/{name}",
    md.FeatureLevelRecord: "feature/{name}",
    md.ProducerIdsRecord: "producer-ids",
    md.AccessControlEntryRecord: "acl/{id}",
    md.RemoveAccessControlEntryRecord: "acl/{id}",
    md.UserScramCredentialRecord: "scram/{mechanism}/{name}",
    md.RemoveUserScramCredentialRecord: "scram/{mechanism}/{name}",
    md.DelegationTokenRecord: "token/{token_id}",
    md.RemoveDelegationTokenRecord: "token/{token_id}",
    LeaderChange: "leader",
    KRaftVersion: "kraft.version",
    VotersRecord: "voters",
}
"""Form of the key by record type, with fields in braces; a `resource_type` is replaced by its name."""
_FIELD = re.compile(r"{(\w+)}")


def key_of(record: object) -> str | None:
    """Return the key of a record, or None."""
    if isinstance(record, md.ClientQuotaRecord):
        return _quota([(each.entity_type, each.entity_name) for each in record.entity], record.key)
    form = _FORMS.get(type(record))
    return None if form is None else _FIELD.sub(lambda named: _text(record, named[1]), form)


def key_array(cls: type, columns: dict[str, pa.Array], count: int) -> pa.Array:
    """Return the keys of many records of one type, from the values of their fields."""
    if cls is md.ClientQuotaRecord:
        named = [[tuple(each.values()) for each in some] for some in columns["entity"].to_pylist()]
        return pa.array(map(_quota, named, columns["key"].to_pylist()), pa.string())
    form = _FORMS.get(cls)
    if form is None:
        return pa.nulls(count, pa.string())
    texts, names = _FIELD.split(form)[0::2], _FIELD.findall(form)
    if not names:
        return pa.repeat(pa.scalar(form), count)
    parts: list[Any] = [texts[0]]
    for name, text in zip(names, texts[1:], strict=True):
        parts += [_text_array(columns[name], name), text]
    return joined([part for part in parts if part != ""], count)


def _text(record: object, name: str) -> str:
    value = getattr(record, name)
    return resource_type_name(value) if name == "resource_type" else str(plain(value))


def _text_array(values: pa.Array, name: str) -> pa.Array:
    if name != "resource_type":
        return values.cast(pa.string())
    numbered = values.dictionary_encode()
    names = list(map(resource_type_name, numbered.dictionary.to_pylist()))
    return pa.array(names, pa.string()).take(numbered.indices)


def _quota(entity: list[tuple[str, str | None]], key: str) -> str:
    parts = sorted((kind, name or "<default>") for kind, name in entity)
    return f"quota/{'/'.join(f'{kind}={name}' for kind, name in parts)}/{key}"
