"""What a record is about, as one text: rows of one thing can be grouped and followed by it. PURE.

Owns the form: `broker/1`, `topic/ID`, `partition/ID/0`, `config/topic/NAME/KEY`. Records about nothing that lasts have
none. A name that holds a slash stays as it is: the text is for grouping, not for taking apart.
"""

from collections.abc import Callable
from typing import Any

from quorum_node.image.resource_types import resource_type_name
from quorum_node.records import metadata as md
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord
from quorum_pipeline.rows.declared import known_uuid_text


def key_of(record: object) -> str | None:
    """The key, or None."""
    maker = _MAKERS.get(type(record))
    return None if maker is None else maker(record)


def _partition(record: Any) -> str:
    return f"partition/{known_uuid_text(record.topic_id)}/{record.partition_id}"


def _config(record: md.ConfigRecord) -> str:
    return f"config/{resource_type_name(record.resource_type)}/{record.resource_name}/{record.name}"


def _quota(record: md.ClientQuotaRecord) -> str:
    parts = sorted((each.entity_type, each.entity_name or "<default>") for each in record.entity)
    return f"quota/{'/'.join(f'{kind}={name}' for kind, name in parts)}/{record.key}"


def _topic(record: Any) -> str:
    return f"topic/{known_uuid_text(record.topic_id)}"


def _broker(record: Any) -> str:
    return f"broker/{record.broker_id}"


def _broker_of_older_form(record: Any) -> str:
    return f"broker/{record.id}"


def _acl(record: Any) -> str:
    return f"acl/{known_uuid_text(record.id)}"


def _scram(record: Any) -> str:
    return f"scram/{record.mechanism}/{record.name}"


def _token(record: Any) -> str:
    return f"token/{record.token_id}"


_MAKERS: dict[type, Callable[[Any], str]] = {
    md.RegisterBrokerRecord: _broker,
    md.UnregisterBrokerRecord: _broker,
    md.FenceBrokerRecord: _broker_of_older_form,
    md.UnfenceBrokerRecord: _broker_of_older_form,
    md.BrokerRegistrationChangeRecord: _broker,
    md.RegisterControllerRecord: lambda record: f"controller/{record.controller_id}",
    md.TopicRecord: _topic,
    md.RemoveTopicRecord: _topic,
    md.PartitionRecord: _partition,
    md.PartitionChangeRecord: _partition,
    md.ConfigRecord: _config,
    md.FeatureLevelRecord: lambda record: f"feature/{record.name}",
    md.ClientQuotaRecord: _quota,
    md.ProducerIdsRecord: lambda record: "producer-ids",
    md.AccessControlEntryRecord: _acl,
    md.RemoveAccessControlEntryRecord: _acl,
    md.UserScramCredentialRecord: _scram,
    md.RemoveUserScramCredentialRecord: _scram,
    md.DelegationTokenRecord: _token,
    md.RemoveDelegationTokenRecord: _token,
    LeaderChange: lambda record: "leader",
    KRaftVersion: lambda record: "kraft.version",
    VotersRecord: lambda record: "voters",
}
