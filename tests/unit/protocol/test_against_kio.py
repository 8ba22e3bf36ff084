"""Every message in every version that is served, against kio's schemas, which are generated from Kafka's own."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from quorum_node.protocol import broker_apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS, FIRST_PRIVATE_KEY
from quorum_node.protocol.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.schema import Array, Message
from quorum_node.schema.source import wire_fields
from support.wire_messages import messages

GROUP_APIS = (
    broker_apis.FIND_COORDINATOR,
    broker_apis.JOIN_GROUP,
    broker_apis.SYNC_GROUP,
    broker_apis.HEARTBEAT,
    broker_apis.LEAVE_GROUP,
    broker_apis.OFFSET_COMMIT,
    broker_apis.OFFSET_FETCH,
    broker_apis.OFFSET_DELETE,
    broker_apis.DESCRIBE_GROUPS,
    broker_apis.LIST_GROUPS,
    broker_apis.DELETE_GROUPS,
    broker_apis.WRITE_TXN_MARKERS,
    broker_apis.DESCRIBE_PRODUCERS,
    broker_apis.ADD_PARTITIONS_TO_TXN,
    broker_apis.LIST_TRANSACTIONS,
    broker_apis.DESCRIBE_TRANSACTIONS,
)


def versions(api: Api) -> list[int]:
    """All of them; of groups' APIs the first, the last and those around the first flexible one."""
    every = range(api.min_version, api.max_version + 1)
    if api not in GROUP_APIS:
        return list(every)
    flexible = api.flexible_since
    told_apart = {api.min_version, api.max_version, flexible - 1, flexible}
    return sorted(told_apart & set(every))


CASES = [
    pytest.param(api, version, side, id=f"{api.name}-v{version}-{side}")
    for api in (*APIS.values(), *GROUP_APIS, DESCRIBE_TOPIC_PARTITIONS)
    if api.key < FIRST_PRIVATE_KEY
    for version in versions(api)
    for side in ("request", "response")
]


def oracle(api: Api, version: int, side: str) -> type[Any]:
    """kio's class for the outermost structure."""
    kind = EntityType.request if side == "request" else EntityType.response
    module = load_payload_module(api.key, version, kind)
    made: type[Any] = getattr(module, f"{api.name}{side.capitalize()}")
    return made


def our_leaves(message: Message, version: int) -> Iterator[Any]:
    """Values in the order of declaration, without structure."""
    for name, spec in wire_fields(type(message)):
        if spec.in_version(version) and (spec.tag is None or spec.tag < 20000):
            yield from leaves_of(getattr(message, name), lambda item: our_leaves(item, version))


def kio_leaves(entity: Any) -> Iterator[Any]:
    """The same of a kio entity."""
    for declared in fields(entity):
        yield from leaves_of(getattr(entity, declared.name), kio_leaves)


def leaves_of(value: Any, descend: Any) -> Iterator[Any]:
    """A leaf, or what is below a structure or array."""
    if isinstance(value, tuple):
        yield len(value)
        for item in value:
            yield from leaves_of(item, descend)
    elif is_dataclass(value):
        yield from descend(value)
    elif isinstance(value, timedelta):
        yield value // timedelta(milliseconds=1)
    elif isinstance(value, datetime):
        yield round(value.timestamp() * 1000)
    elif isinstance(value, memoryview):
        yield bytes(value)
    else:
        yield value


@pytest.mark.parametrize(("api", "version", "side"), CASES)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_bytes_and_values_equal_those_of_kio(api: Api, version: int, side: str, data: Any) -> None:
    """Our bytes mean the same to kio, and kio's bytes mean the same to us."""
    cls = api.request if side == "request" else api.response
    message = data.draw(messages(cls, version, private=False))
    ours = encode(message, version)

    theirs = oracle(api, version, side)
    entity, size = entity_reader(theirs)(ours, 0)
    assert size == len(ours)
    assert list(kio_leaves(entity)) == list(our_leaves(message, version))

    buffer = BytesIO()
    entity_writer(theirs)(buffer, entity)
    assert buffer.getvalue() == ours
    assert list(our_leaves(decode(cls, version, buffer.getvalue()), version)) == list(
        our_leaves(message, version)
    )


RENAMED = {"k_raft_version_feature": "kraft_version_feature", "id_": "id"}


def our_names(cls: type[Message], version: int) -> Iterator[str]:
    """Field names in the order of declaration, those of structures after the field that holds them."""
    for name, spec in wire_fields(cls):
        if spec.in_version(version) and (spec.tag is None or spec.tag < 20000):
            yield name.removesuffix("_ms")
            kind = spec.type.element if isinstance(spec.type, Array) else spec.type
            if isinstance(kind, type):
                yield from our_names(kind, version)


def kio_names(cls: type[Any]) -> Iterator[str]:
    """The same of a kio class."""
    hints = get_type_hints(cls)
    for declared in fields(cls):
        yield RENAMED.get(declared.name, declared.name).removesuffix("_ms")
        hint = hints[declared.name]
        for kind in (hint, *get_args(hint), *(a for h in get_args(hint) for a in get_args(h))):
            if is_dataclass(kind):
                assert isinstance(kind, type)
                yield from kio_names(kind)
                break


@pytest.mark.parametrize(("api", "version", "side"), CASES)
def test_field_names_and_order_equal_those_of_kio(api: Api, version: int, side: str) -> None:
    """Two neighbours of one type that were swapped would pass the test of bytes."""
    cls = api.request if side == "request" else api.response
    assert list(our_names(cls, version)) == list(kio_names(oracle(api, version, side)))
