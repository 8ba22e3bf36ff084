"""The active controller's shell: nothing uncommitted is seen, a deposed controller's changes vanish."""

import pytest

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
from support.broker_requests import heartbeat, registration
from support.controller_scene import VOTERS, Scene, play


async def scene_with_broker() -> tuple[Scene, int]:
    """An active controller, and the epoch of its unfenced broker 7."""
    scene = Scene(maintained=True)
    await scene.lead()
    await scene.commit()
    epoch = (await scene.do(registration(7))).broker_epoch
    await scene.do(heartbeat(7, epoch, epoch))
    return scene, epoch


@pytest.mark.requirement("K631-03")
def test_an_answer_leaves_after_the_commit_and_not_before() -> None:
    async def test() -> None:
        scene = Scene()
        await scene.lead()
        asked = scene.ask(registration(7))
        await scene.turn()
        assert asked.answers == []
        assert scene.controller.pending is not None
        assert scene.controller.pending.brokers.get(7) is not None
        assert scene.committed.image.brokers.get(7) is None
        await scene.commit()
        assert asked.answer.error_code == 0

    play(test)


@pytest.mark.requirement("K631-03")
def test_an_answer_without_records_waits_for_what_it_may_tell_of() -> None:
    async def test() -> None:
        scene = Scene()
        await scene.lead()
        first = scene.ask(registration(7))
        assert scene.controller.pending is not None
        broker = scene.controller.pending.brokers.get(7)
        assert broker is not None
        second = scene.ask(heartbeat(7, broker.broker_epoch, -1))
        await scene.turn()
        assert second.answers == [], "it would tell of a registration that may never be"
        await scene.commit()
        assert (first.answer.error_code, second.answer.error_code) == (0, 0)
        third = scene.ask(heartbeat(7, broker.broker_epoch, -1))
        assert third.answer.is_fenced, "nothing is on its way: at once"

    play(test)


@pytest.mark.requirement("K631-03")
def test_a_deposed_controllers_changes_vanish_and_their_callers_hear_not_controller() -> None:
    async def test() -> None:
        scene = Scene()
        await scene.lead()
        first = scene.ask(registration(7))
        await scene.turn()
        second = scene.ask(registration(8))
        await scene.lose()
        third = scene.ask(registration(9))
        assert [each.answer.error_code for each in (first, second, third)] == [
            ErrorCode.NOT_CONTROLLER
        ] * 3
        assert scene.controller.pending is None
        await scene.lead(3)
        assert scene.controller.pending is not None
        assert len(scene.controller.pending.brokers.by_id) == 0

    play(test)


@pytest.mark.requirement("K631-02", "K631-03")
def test_who_leads_no_more_decides_nothing_also_with_nothing_on_its_way() -> None:
    """Nothing fails then that would tell the controller: it has to see that it leads no more."""

    async def test() -> None:
        scene, epoch = await scene_with_broker()
        await scene.commit()
        assert scene.controller.flights == 0
        scene.epoch = None
        scene.controller.check()
        assert not scene.controller.is_active
        assert scene.controller.view() is None
        refused = scene.ask(heartbeat(7, epoch, epoch))
        assert refused.answer.error_code == ErrorCode.NOT_CONTROLLER
        scene.epoch = 2
        scene.controller.check()
        await scene.turn()
        assert (scene.controller.is_active, scene.controller.epoch) == (True, 2)

    play(test)


@pytest.mark.requirement("K631-02")
def test_a_standby_takes_over_with_the_image_that_it_has() -> None:
    async def test() -> None:
        scene, epoch = await scene_with_broker()
        await scene.lose()
        before = scene.committed.image
        await scene.lead(5)
        assert scene.controller.pending is before, "nothing is loaded or copied"
        answer = await scene.do(heartbeat(7, epoch, epoch))
        assert (answer.error_code, answer.is_fenced) == (0, False)

    play(test)


@pytest.mark.requirement("K631-02")
def test_who_leads_again_in_another_epoch_begins_anew() -> None:
    """Between two looks it may have been deposed and elected."""

    async def test() -> None:
        scene, epoch = await scene_with_broker()
        scene.epoch = 5
        scene.controller.check()
        assert not scene.controller.is_active
        asked = scene.ask(heartbeat(7, epoch, epoch))
        assert asked.answer.error_code == ErrorCode.NOT_CONTROLLER
        await scene.lead(5)
        assert (scene.controller.is_active, scene.controller.epoch) == (True, 5)

    play(test)


@pytest.mark.requirement("K631-02")
def test_what_brokers_reported_in_an_earlier_epoch_does_not_count() -> None:
    """What they had applied may be gone from the log."""

    async def test() -> None:
        scene, epoch = await scene_with_broker()
        reported = scene.controller.leases.get(7, epoch)
        assert reported is not None
        assert reported.metadata_offset == epoch
        await scene.lose()
        scene.now_ms = 20_000
        await scene.lead(5)
        renewed = scene.controller.leases.get(7, epoch)
        assert renewed is not None
        assert (renewed.metadata_offset, renewed.shutdown_offset) == (-1, -1)
        assert renewed.renewed_ms == 20_000, "and it has the time of a whole lease to report"

    play(test)


@pytest.mark.requirement("K631-02")
def test_it_is_not_active_before_everything_committed_is_applied() -> None:
    async def test() -> None:
        scene, epoch = await scene_with_broker()
        scene.ask(registration(8))
        await scene.commit(apply=False)
        await scene.lose()
        await scene.lead(5)
        assert not scene.controller.is_active
        asked = scene.ask(heartbeat(7, epoch, epoch))
        assert asked.answer.error_code == ErrorCode.NOT_CONTROLLER
        scene.apply()
        await scene.turn()
        assert scene.controller.is_active
        assert scene.controller.pending is not None
        assert scene.controller.pending.brokers.get(8) is not None

    play(test)


def test_what_others_append_is_part_of_the_state_that_commands_see() -> None:
    async def test() -> None:
        scene = Scene()
        await scene.lead()
        record = ConfigRecord(resource_type=2, resource_name="t", name="a", value="b")
        scene.append((encode_metadata(record),), lambda outcome: None)
        assert scene.controller.pending is not None
        assert dict(scene.controller.pending.configs.of(2, "t")) == {"a": "b"}
        await scene.commit()
        assert scene.controller.pending is scene.committed.image

    play(test)


def test_a_failed_append_while_it_leads_drops_the_state_until_nothing_is_on_its_way() -> None:
    async def test() -> None:
        scene = Scene()
        await scene.lead()
        first = scene.ask(registration(7))
        await scene.turn()
        second = scene.ask(registration(8))
        await scene.turn()
        # The second is refused (as by a disk that is almost full), the first goes on.
        proposal_id, _, _ = scene._open.pop()
        scene.appends.failed(proposal_id, RaftError.DISK_LOW)
        assert second.answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not scene.controller.is_active
        await scene.commit()
        assert first.answer.error_code == 0
        assert scene.controller.is_active
        assert scene.controller.pending is not None
        assert set(scene.controller.pending.brokers.by_id) == {7}

    play(test)


@pytest.mark.requirement("K631-13")
def test_a_new_cluster_begins_with_the_levels_of_its_features() -> None:
    async def test() -> None:
        scene = Scene(maintained=True)
        await scene.lead()
        records = await scene.commit()
        assert isinstance(records[0], FeatureLevelRecord)
        assert (records[0].name, records[0].feature_level) == (METADATA_VERSION, 30)
        await scene.lose()
        await scene.lead(2)
        assert await scene.commit() == [], "only once"

    play(test)


@pytest.mark.requirement("K631-13")
def test_a_format_switches_with_the_finalized_level_and_not_with_a_restart() -> None:
    async def test() -> None:
        scene, epoch = await scene_with_broker()
        level = FeatureUpdate(
            feature="transaction.version",
            max_version_level=1,
            upgrade_type=UpgradeType.SAFE_DOWNGRADE,
        )
        scene.voters = VOTERS[:1]
        answer = await scene.do(UpdateFeaturesRequest(feature_updates=(level,)))
        assert answer.error_code == 0, answer.error_message
        assert scene.committed.image.features.level("transaction.version") == 1
        await scene.lose()
        old = Scene(maintained=True)
        start = FeatureLevelRecord(name=METADATA_VERSION, feature_level=17)
        old.committed.replay([start])
        await old.lead()
        await old.do(registration(7))
        assert old.log[-1][1][0][2] == 3, "RegisterBrokerRecord v3 at 3.7-IV2"
        assert next(values for _, values in scene.log if values[0][1] == 0)[0][2] == 4
        assert epoch >= 0

    play(test)


def test_a_finalized_feature_that_it_does_not_know_keeps_it_from_deciding() -> None:
    async def test() -> None:
        scene = Scene(maintained=True)
        level = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=2)
        scene.committed.replay([level])
        await scene.lead()
        assert scene.ask(registration(7)).answer.error_code == ErrorCode.NOT_CONTROLLER

    play(test)


@pytest.mark.requirement("K631-08")
def test_a_broker_without_heartbeats_is_fenced_when_its_lease_ends() -> None:
    async def test() -> None:
        scene, epoch = await scene_with_broker()
        scene.now_ms += 8_999
        scene.pending_changed()
        assert await scene.commit() == []
        scene.now_ms += 1
        scene.pending_changed()
        (record,) = await scene.commit()
        assert isinstance(record, BrokerRegistrationChangeRecord)
        assert (record.broker_id, record.fenced) == (7, 1)
        answer = await scene.do(heartbeat(7, epoch, epoch + 10))
        assert not answer.is_fenced, "the lease is restored"

    play(test)


@pytest.mark.requirement("K631-08", "KV3-06")
def test_a_new_controller_gives_every_broker_the_time_of_a_lease() -> None:
    async def test() -> None:
        scene, _ = await scene_with_broker()
        await scene.lose()
        scene.now_ms += 60_000
        await scene.lead(2)
        assert await scene.commit() == []
        scene.now_ms += 9_000
        scene.pending_changed()
        (record,) = await scene.commit()
        assert isinstance(record, BrokerRegistrationChangeRecord)

    play(test)


def test_every_block_of_producer_ids_is_given_once() -> None:
    async def test() -> None:
        scene, epoch = await scene_with_broker()
        asked = [
            scene.ask(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch)) for _ in range(3)
        ]
        await scene.commit()
        assert [each.answer.producer_id_start for each in asked] == [0, 1000, 2000]
        await scene.lose()
        await scene.lead(2)
        answer = await scene.do(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch))
        assert (answer.producer_id_start, answer.producer_id_len) == (3000, 1000)
        stale = await scene.do(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch - 1))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    play(test)


@pytest.mark.requirement("K631-08")
def test_a_broker_epoch_is_the_offset_of_its_registration() -> None:
    async def test() -> None:
        scene = Scene(maintained=True)
        await scene.lead()
        asked = [scene.ask(registration(each)) for each in (7, 8, 9)]
        records = await scene.commit()
        offsets = [n for n, each in enumerate(records) if isinstance(each, RegisterBrokerRecord)]
        assert [each.answer.broker_epoch for each in asked] == offsets

    play(test)
