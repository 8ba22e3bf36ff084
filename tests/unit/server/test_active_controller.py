"""The active controller's shell: nothing uncommitted is seen, a deposed controller's changes vanish."""

import pytest
from structlog.testing import capture_logs

from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.features import FeatureUpdate, UpdateFeaturesRequest, UpgradeType
from quorum_node.protocol.producer_ids import AllocateProducerIdsRequest
from quorum_node.raft.errors import RaftError
from quorum_node.records.metadata import (
    METADATA_VERSION,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    encode_metadata,
)
from support.broker_requests import CLUSTER_ID, heartbeat, registration
from support.controller_env import VOTERS, Env


async def env_with_broker() -> tuple[Env, int]:
    """An active controller, and the epoch of its unfenced broker 7."""
    env = Env(maintained=True)
    await env.lead()
    await env.commit()
    epoch = (await env.do(registration(7))).broker_epoch
    await env.do(heartbeat(7, epoch, epoch))
    return env, epoch


@pytest.mark.requirement("K631-03")
async def test_response_is_sent_after_the_commit_and_not_before() -> None:
    env = Env()
    await env.lead()
    pending = env.ask(registration(7))
    await env.turn()
    assert pending.answers == []
    assert env.controller.pending is not None
    assert env.controller.pending.brokers.get(7) is not None
    assert env.committed.image.brokers.get(7) is None
    await env.commit()
    assert pending.answer.error_code == 0


@pytest.mark.requirement("K631-03")
async def test_response_without_records_waits_for_the_offset_that_it_depends_on() -> None:
    env = Env()
    await env.lead()
    first = env.ask(registration(7))
    assert env.controller.pending is not None
    broker = env.controller.pending.brokers.get(7)
    assert broker is not None
    second = env.ask(heartbeat(7, broker.broker_epoch, -1))
    await env.turn()
    assert second.answers == [], "it would show a registration that may never be committed"
    await env.commit()
    assert (first.answer.error_code, second.answer.error_code) == (0, 0)
    third = env.ask(heartbeat(7, broker.broker_epoch, -1))
    assert third.answer.is_fenced, "no proposal is pending: answered at once"


@pytest.mark.requirement("K631-03")
async def test_uncommitted_changes_of_a_deposed_controller_are_answered_with_not_controller() -> (
    None
):
    env = Env()
    await env.lead()
    first = env.ask(registration(7))
    await env.turn()
    second = env.ask(registration(8))
    await env.lose()
    third = env.ask(registration(9))
    assert [each.answer.error_code for each in (first, second, third)] == [
        ErrorCode.NOT_CONTROLLER
    ] * 3
    assert env.controller.pending is None
    await env.lead(3)
    assert env.controller.pending is not None
    assert len(env.controller.pending.brokers.by_id) == 0


@pytest.mark.requirement("K631-02", "K631-03")
async def test_former_leader_makes_no_decision_without_appends_in_flight() -> None:
    """No append fails then that would notify the controller: it must check that it is still the leader."""
    env, epoch = await env_with_broker()
    await env.commit()
    assert env.controller.in_flight == 0
    env.epoch = None
    env.controller.check()
    assert not env.controller.is_active
    assert env.controller.view() is None
    refused = env.ask(heartbeat(7, epoch, epoch))
    assert refused.answer.error_code == ErrorCode.NOT_CONTROLLER
    env.epoch = 2
    env.controller.check()
    await env.turn()
    assert (env.controller.is_active, env.controller.epoch) == (True, 2)


@pytest.mark.requirement("K631-02")
async def test_standby_takes_over_with_its_current_image() -> None:
    env, epoch = await env_with_broker()
    await env.lose()
    before = env.committed.image
    await env.lead(5)
    assert env.controller.pending is before, "nothing is loaded or copied"
    answer = await env.do(heartbeat(7, epoch, epoch))
    assert (answer.error_code, answer.is_fenced) == (0, False)


@pytest.mark.requirement("K631-02")
async def test_leader_of_a_new_epoch_starts_with_a_fresh_state() -> None:
    """Between two looks it may have been deposed and elected."""
    env, epoch = await env_with_broker()
    env.epoch = 5
    env.controller.check()
    assert not env.controller.is_active
    pending = env.ask(heartbeat(7, epoch, epoch))
    assert pending.answer.error_code == ErrorCode.NOT_CONTROLLER
    await env.lead(5)
    assert (env.controller.is_active, env.controller.epoch) == (True, 5)


@pytest.mark.requirement("K631-02")
async def test_broker_reports_of_an_earlier_epoch_are_discarded() -> None:
    """What they had applied may be gone from the log."""
    env, epoch = await env_with_broker()
    reported = env.controller.leases.get(7, epoch)
    assert reported is not None
    assert reported.metadata_offset == epoch
    await env.lose()
    env.now_ms = 20_000
    await env.lead(5)
    renewed = env.controller.leases.get(7, epoch)
    assert renewed is not None
    assert (renewed.metadata_offset, renewed.shutdown_offset) == (-1, -1)
    assert renewed.renewed_ms == 20_000, "and it has the time of a whole lease to report"


@pytest.mark.requirement("K631-02")
async def test_controller_is_active_only_after_applying_all_committed_records() -> None:
    env, epoch = await env_with_broker()
    env.ask(registration(8))
    await env.commit(apply=False)
    await env.lose()
    await env.lead(5)
    assert not env.controller.is_active
    pending = env.ask(heartbeat(7, epoch, epoch))
    assert pending.answer.error_code == ErrorCode.NOT_CONTROLLER
    env.apply()
    await env.turn()
    assert env.controller.is_active
    assert env.controller.pending is not None
    assert env.controller.pending.brokers.get(8) is not None


async def test_appends_of_others_are_visible_to_commands() -> None:
    env = Env()
    await env.lead()
    record = ConfigRecord(resource_type=2, resource_name="t", name="a", value="b")
    env.append((encode_metadata(record),), lambda outcome: None)
    assert env.controller.pending is not None
    assert dict(env.controller.pending.configs.of(2, "t")) == {"a": "b"}
    await env.commit()
    assert env.controller.pending is env.committed.image


async def test_failed_append_of_a_leader_drops_the_state_until_no_append_is_in_flight() -> None:
    env = Env()
    await env.lead()
    first = env.ask(registration(7))
    await env.turn()
    second = env.ask(registration(8))
    await env.turn()
    # The second is rejected (as by a disk that is almost full), the first continues.
    proposal_id, _, _ = env._open.pop()
    env.appends.failed(proposal_id, RaftError.DISK_LOW)
    assert second.answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not env.controller.is_active
    await env.commit()
    assert first.answer.error_code == 0
    assert env.controller.is_active
    assert env.controller.pending is not None
    assert set(env.controller.pending.brokers.by_id) == {7}


@pytest.mark.requirement("K631-13")
async def test_new_cluster_starts_with_its_feature_levels() -> None:
    env = Env(maintained=True)
    await env.lead()
    records = await env.commit()
    assert isinstance(records[0], FeatureLevelRecord)
    assert (records[0].name, records[0].feature_level) == (METADATA_VERSION, 30)
    await env.lose()
    await env.lead(2)
    assert await env.commit() == [], "only once"


@pytest.mark.requirement("K631-13")
async def test_format_changes_with_the_finalized_level_and_not_with_a_restart() -> None:
    env, epoch = await env_with_broker()
    level = FeatureUpdate(
        feature="transaction.version",
        max_version_level=1,
        upgrade_type=UpgradeType.SAFE_DOWNGRADE,
    )
    env.voters = VOTERS[:1]
    answer = await env.do(UpdateFeaturesRequest(feature_updates=(level,)))
    assert answer.error_code == 0, answer.error_message
    assert env.committed.image.features.level("transaction.version") == 1
    await env.lose()
    old = Env(maintained=True)
    start = FeatureLevelRecord(name=METADATA_VERSION, feature_level=17)
    old.committed.replay([start])
    await old.lead()
    await old.do(registration(7))
    assert old.log[-1][1][0][2] == 3, "RegisterBrokerRecord v3 at 3.7-IV2"
    assert next(values for _, values in env.log if values[0][1] == 0)[0][2] == 4
    assert epoch >= 0


async def test_unknown_finalized_feature_prevents_decisions() -> None:
    env = Env(maintained=True)
    level = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=2)
    env.committed.replay([level])
    await env.lead()
    assert env.ask(registration(7)).answer.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.requirement("K631-08")
async def test_broker_without_heartbeats_is_fenced_when_its_lease_expires() -> None:
    env, epoch = await env_with_broker()
    env.now_ms += 8_999
    env.pending_changed()
    assert await env.commit() == []
    env.now_ms += 1
    env.pending_changed()
    (record,) = await env.commit()
    assert isinstance(record, BrokerRegistrationChangeRecord)
    assert (record.broker_id, record.fenced) == (7, 1)
    answer = await env.do(heartbeat(7, epoch, epoch + 10))
    assert not answer.is_fenced, "the lease is restored"


@pytest.mark.requirement("K631-08", "KV3-06")
async def test_new_controller_grants_every_broker_a_full_lease() -> None:
    env, _ = await env_with_broker()
    await env.lose()
    env.now_ms += 60_000
    await env.lead(2)
    assert await env.commit() == []
    env.now_ms += 9_000
    env.pending_changed()
    (record,) = await env.commit()
    assert isinstance(record, BrokerRegistrationChangeRecord)


async def test_each_block_of_producer_ids_is_allocated_once() -> None:
    env, epoch = await env_with_broker()
    requested = [
        env.ask(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch)) for _ in range(3)
    ]
    await env.commit()
    assert [each.answer.producer_id_start for each in requested] == [0, 1000, 2000]
    await env.lose()
    await env.lead(2)
    answer = await env.do(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch))
    assert (answer.producer_id_start, answer.producer_id_len) == (3000, 1000)
    stale = await env.do(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch - 1))
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_reason_of_a_refused_registration_is_logged_more_and_more_rarely() -> None:
    """The response has no field for it, and the broker repeats the request every few seconds."""
    env = Env()
    await env.lead()
    with capture_logs() as lines:
        for _ in range(5):
            refused = await env.do(registration(7, cluster_id="another"))
            assert refused.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        await env.do(registration(8, cluster_id="another" * 1000))
    first, *others, long = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert first == f"broker 7 is not registered: this is cluster {CLUSTER_ID}, not another"
    assert others == [first] * 2
    assert len(long) == 1000


@pytest.mark.requirement("K631-08")
async def test_broker_epoch_is_the_offset_of_its_registration() -> None:
    env = Env(maintained=True)
    await env.lead()
    requested = [env.ask(registration(each)) for each in (7, 8, 9)]
    records = await env.commit()
    offsets = [n for n, each in enumerate(records) if isinstance(each, RegisterBrokerRecord)]
    assert [each.answer.broker_epoch for each in requested] == offsets
