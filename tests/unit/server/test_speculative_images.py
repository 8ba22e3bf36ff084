"""Replay takes over an image of the active controller exactly where it could not make another one."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import nan
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.controller.decision import Decision
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataMessage,
    TopicRecord,
    decode_metadata,
    encode_metadata,
)
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.server.controller.speculative_images import (
    LOSSLESS,
    SpeculativeImages,
    Step,
    are_outside_transactions,
    decode_to_same,
)
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.applier import Applier
from support.applier_port import RecordingPort
from support.broker_requests import heartbeat, registration
from support.controller_env import Env
from support.wire_messages import messages

pytestmark = pytest.mark.requirement("K631-03")


def config(number: int) -> ConfigRecord:
    """One of many records."""
    return ConfigRecord(resource_type=2, resource_name="t", name=f"n{number}", value="v")


FIRST = ClusterImage()
SECOND, THIRD = (FIRST.replay_all(map(config, range(count))) for count in (2, 5))


def speculative() -> SpeculativeImages:
    """Offsets 10 and 11, then 12 to 14, of epoch 3."""
    known = SpeculativeImages()
    known.committed(10, 12, 3, Step(FIRST, SECOND))
    known.committed(12, 15, 3, Step(SECOND, THIRD))
    return known


def test_batches_of_one_and_two_steps_are_reused() -> None:
    known = speculative()
    assert known.behind(FIRST, 10, 12, 3) is SECOND
    assert known.behind(SECOND, 12, 15, 3) is THIRD
    assert speculative().behind(FIRST, 10, 15, 3) is THIRD
    assert len(known) == 0


@pytest.mark.parametrize(
    ("image", "base", "end", "epoch"),
    [
        (ClusterImage(), 10, 12, 3),  # equal, and not the one
        (FIRST, 10, 12, 4),
        (FIRST, 9, 12, 3),
        (FIRST, 10, 13, 3),
        (FIRST, 10, 11, 3),
        (SECOND, 10, 15, 3),
        (FIRST, 10, 16, 3),
        (FIRST, 0, 5, 3),
    ],
)
def test_other_batches_are_replayed(image: ClusterImage, base: int, end: int, epoch: int) -> None:
    known = speculative()
    assert known.behind(image, base, end, epoch) is None
    assert len(known) == sum(step_base >= end for step_base in (10, 12)), "asked once, then gone"


def test_images_behind_the_replay_position_are_dropped() -> None:
    known = speculative()
    known.behind(ClusterImage(), 10, 12, 3)
    assert len(known) == 1
    assert known.behind(SECOND, 12, 15, 3) is THIRD


def test_only_images_needed_by_the_replay_are_kept() -> None:
    topic = TopicRecord(name="t", topic_id=UUID(int=500))
    values = list(map(encode_metadata, (config(1), topic)))
    assert are_outside_transactions((config(1), topic))
    assert decode_to_same((config(1), topic), values)
    assert not decode_to_same((config(1), replace(topic, name="u")), values)
    for boundary in (BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()):
        assert not are_outside_transactions((config(1), boundary))


@pytest.mark.parametrize("kind", sorted(LOSSLESS, key=lambda kind: kind.__name__))
@given(data=st.data())
def test_types_that_are_not_decoded_again_lose_no_field(
    kind: type[MetadataMessage], data: st.DataObject
) -> None:
    version = data.draw(st.integers(0, kind.HIGHEST_VERSION))
    for fields_of in (version, kind.HIGHEST_VERSION):
        record = data.draw(messages(kind, fields_of))
        assert isinstance(record, MetadataMessage)
        with suppress(FieldNotInVersion):
            assert decode_metadata(encode_metadata(record, version)) == record


async def test_controller_image_becomes_the_committed_image_at_commit() -> None:
    env = Env(maintained=True)
    await env.lead()
    await env.commit()
    epoch = (await env.do(registration(7))).broker_epoch
    before = env.committed.image
    requested = env.ask(heartbeat(7, epoch, epoch))
    pending = env.controller.pending
    assert pending is not None
    assert env.committed.image is before
    await env.commit()
    assert not requested.answer.is_fenced
    assert env.committed.image is pending
    assert env.speculative == len(env.log)


async def test_uncommitted_image_is_never_adopted() -> None:
    env = Env()
    await env.lead()
    env.ask(registration(7))
    await env.turn()
    await env.lose()
    assert len(env.controller.speculative) == 0
    await env.lead(3)
    await env.do(registration(8))
    assert set(env.committed.image.brokers.by_id) == {8}


async def test_image_of_already_replayed_records_is_not_kept() -> None:
    env = Env()
    await env.lead()
    env.ask(registration(7))
    await env.commit(apply_first=True)
    assert set(env.committed.image.brokers.by_id) == {7}
    assert len(env.controller.speculative) == 0


async def test_deposed_controller_drops_committed_and_unapplied_images() -> None:
    env = Env()
    await env.lead()
    env.ask(registration(7))
    await env.commit(apply=False)
    assert len(env.controller.speculative) == 1
    await env.lose()
    assert len(env.controller.speculative) == 0
    env.apply()
    assert set(env.committed.image.brokers.by_id) == {7}


def append(env: Env, *records: MetadataMessage) -> None:
    """As the admin API does."""
    env.append(tuple(map(encode_metadata, records)), lambda outcome: None)


def decide(env: Env, *records: MetadataMessage, atomic: bool = True) -> None:
    """As a command does."""
    env.controller.carry_out(Decision(records, atomic=atomic), lambda error: None)


async def test_appends_of_others_are_adopted_as_well() -> None:
    env = Env()
    await env.lead()
    append(env, config(1))
    await env.commit()
    assert env.speculative == 1
    assert env.committed.image == ClusterImage().replay(config(1))


async def test_decision_in_several_batches_is_visible_only_as_far_as_committed() -> None:
    large = [replace(config(number), value="v" * (1 << 20)) for number in range(6)]
    env = Env()
    await env.lead()
    decide(env, *large, atomic=False)
    first = await env.commit(most=1)
    assert 0 < len(first) < len(large)
    assert env.committed.image == ClusterImage().replay_all(first)
    await env.commit()
    assert env.committed.image == ClusterImage().replay_all(large)


@pytest.mark.parametrize("write", [append, decide])
async def test_transaction_that_starts_in_the_image_is_replayed(
    write: Callable[..., None],
) -> None:
    env = Env()
    await env.lead()
    write(env, BeginTransactionRecord(), config(1))
    await env.commit()
    assert env.committed.in_transaction
    assert env.committed.image == ClusterImage()
    assert env.speculative == 0


async def test_decision_that_differs_from_the_log_is_replayed() -> None:
    """No number equals NaN: the one record that is not what is read again."""
    quota = ClientQuotaRecord(entity=(), key="producer_byte_rate", value=nan, remove=False)
    env = Env()
    await env.lead()
    decide(env, quota)
    await env.commit(apply=False)
    assert len(env.controller.speculative) == 0


async def test_failed_decision_is_not_matched_to_the_next_append() -> None:
    env = Env()
    await env.lead()
    env.ask(registration(7))
    await env.lose()
    env.epoch = 2  # it leads again, and has not become active yet
    append(env, config(1))
    await env.commit()
    assert env.committed.image == ClusterImage().replay(config(1))
    assert env.speculative == 0


class Log:
    """Batches of epoch 3, one behind the other."""

    def __init__(self, *batches: tuple[MetadataMessage, ...]) -> None:
        self.data, self.end_offset = b"", 0
        for records in batches:
            values = list(map(encode_metadata, records))
            self.data += encode_values(
                base_offset=self.end_offset, leader_epoch=3, timestamp_ms=0, values=values
            )
            self.end_offset += len(values)

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        return self.data if start_offset == 0 else b""


def applied(log: Log, known: SpeculativeImages) -> Applier:
    """An applier that has gone through the log; its image at the beginning must be `FIRST`."""

    port = RecordingPort(known)

    async def apply() -> Applier:
        applier = Applier(log, port, Metrics().partition(0))
        applier.committed.take_over(FIRST)
        applier.advance(log.end_offset)
        applier.when_applied(log.end_offset, lambda: None)
        return applier

    made = asyncio.run(apply())
    assert port.failures == []
    return made


def test_replay_looks_up_each_batch() -> None:
    known = SpeculativeImages()
    known.committed(0, 1, 3, Step(FIRST, SECOND))
    applier = applied(Log((config(1),), (config(7),)), known)
    assert applier.image == SECOND.replay(config(7))


def test_transaction_is_always_replayed() -> None:
    known = SpeculativeImages()
    known.committed(1, 2, 3, Step(FIRST, SECOND))
    log = Log((BeginTransactionRecord(),), (config(1),), (AbortTransactionRecord(),))
    assert applied(log, known).image == FIRST
    assert len(known) == 0
