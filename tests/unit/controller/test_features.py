"""UpdateFeatures and ControllerRegistration: a level is finalized only if every node can work with it."""

from typing import Any
from uuid import UUID

import pytest

from quorum_node.controller.feature_levels import ANNOUNCED, OF_A_NEW_CLUSTER
from quorum_node.controller.features import update_features
from quorum_node.controller.registration import register_controller
from quorum_node.protocol.broker_registration import RegisteredListener, SupportedFeatureRange
from quorum_node.protocol.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.features import (
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import LATEST_LEVEL, METADATA_VERSION, FeatureLevelRecord
from support.controlled_cluster import NODE_ID, ControlledCluster

TRANSACTIONS = "transaction.version"
NEW_UUID, OLD_UUID = UUID(int=2 << 100), UUID(int=1 << 100)


def cluster_of_three(level: int = LATEST_LEVEL) -> ControlledCluster:
    """Controllers 100 (the active one), 101 and 102; none has registered yet."""
    cluster = ControlledCluster(level=level)
    levels = OF_A_NEW_CLUSTER if level == LATEST_LEVEL else {}
    cluster.replay(
        FeatureLevelRecord(name=name, feature_level=each) for name, each in levels.items()
    )
    cluster.voters = tuple(ReplicaKey(NODE_ID + index, NEW_UUID) for index in range(3))
    return cluster


def register(
    cluster: ControlledCluster,
    node_id: int,
    *,
    uuid: UUID | None = NEW_UUID,
    listeners: tuple[RegisteredListener, ...] = (),
    **highest: int,
) -> ControllerRegistrationResponse:
    """A controller registers; `highest` (dots as underscores) replaces levels that it supports."""
    limits = {name: each.max_level for name, each in ANNOUNCED.items()}
    limits |= {name.replace("_", "."): level for name, level in highest.items()}
    request = ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=UUID(int=abs(node_id) << 80),
        listeners=listeners,
        features=tuple(
            SupportedFeatureRange(name=name, min_supported_version=0, max_supported_version=level)
            for name, level in limits.items()
        ),
        directory_id=uuid,
    )
    return cluster.ask(register_controller, request, ControllerRegistrationResponse)


def update(
    cluster: ControlledCluster, feature: str, level: int, way: UpgradeType, **fields: Any
) -> UpdateFeaturesResponse:
    """One feature to one level."""
    update = FeatureUpdate(feature=feature, max_version_level=level, upgrade_type=way)
    request = UpdateFeaturesRequest(feature_updates=(update,), **fields)
    return cluster.ask(update_features, request, UpdateFeaturesResponse)


@pytest.mark.requirement("K631-13")
def test_three_voters_change_a_level_after_all_of_them_have_registered() -> None:
    cluster = cluster_of_three()
    assert register(cluster, NODE_ID + 1).error_code == 0
    refused = update(cluster, TRANSACTIONS, 1, UpgradeType.SAFE_DOWNGRADE)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"controller {NODE_ID + 2} has not registered" in (refused.error_message or "")
    register(cluster, NODE_ID + 2)
    answer = update(cluster, TRANSACTIONS, 1, UpgradeType.SAFE_DOWNGRADE)
    assert (answer.error_code, cluster.image.features.level(TRANSACTIONS)) == (0, 1)


def test_level_unsupported_by_one_controller_is_rejected() -> None:
    cluster = cluster_of_three()
    register(cluster, NODE_ID + 1)
    register(cluster, NODE_ID + 2, transaction_version=1)
    update(cluster, TRANSACTIONS, 0, UpgradeType.SAFE_DOWNGRADE)
    refused = update(cluster, TRANSACTIONS, 2, UpgradeType.UPGRADE)
    assert f"Controller {NODE_ID + 2} only supports versions 0-1" in (refused.error_message or "")
    assert update(cluster, TRANSACTIONS, 1, UpgradeType.UPGRADE).error_code == 0


def test_controllers_are_not_checked_below_the_metadata_version_of_registrations() -> None:
    cluster = cluster_of_three(level=14)
    answer = register(cluster, NODE_ID + 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert update(cluster, METADATA_VERSION, 15, UpgradeType.UPGRADE).error_code == 0
    assert register(cluster, NODE_ID + 1).error_code == 0


@pytest.mark.parametrize(
    ("before", "after", "way", "reported"),
    [
        (30, 29, UpgradeType.SAFE_DOWNGRADE, "might delete metadata information"),
        (30, 29, UpgradeType.UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported"),
        (30, 29, UpgradeType.UPGRADE, "without setting the upgrade type"),
        (30, 6, UpgradeType.SAFE_DOWNGRADE, "only supports versions 7-30"),
        (29, 24, UpgradeType.SAFE_DOWNGRADE, None),
        (29, 23, UpgradeType.SAFE_DOWNGRADE, None),
        (29, 22, UpgradeType.SAFE_DOWNGRADE, "might delete metadata information"),
    ],
)
def test_metadata_version_is_lowered_only_without_data_loss(
    before: int, after: int, way: UpgradeType, reported: str | None
) -> None:
    cluster = ControlledCluster(level=before)
    answer = update(cluster, METADATA_VERSION, after, way)
    if reported is None:
        assert (answer.error_code, cluster.image.features.metadata_version) == (0, after)
    else:
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert reported in (answer.error_message or "")
        assert cluster.image.features.metadata_version == before


def test_only_the_newest_voter_of_two_processes_with_one_id_registers() -> None:
    cluster = cluster_of_three()
    doubled = NODE_ID + 1
    cluster.voters = (
        ReplicaKey(doubled, OLD_UUID),
        ReplicaKey(NODE_ID, NEW_UUID),
        ReplicaKey(doubled, NEW_UUID),
    )
    refused = register(cluster, doubled, uuid=OLD_UUID)
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert cluster.image.controllers.get(doubled) is None
    assert register(cluster, doubled).error_code == 0
    assert register(cluster, doubled, uuid=None).error_code == 0, "a stock controller sends no UUID"
    assert register(cluster, 7, uuid=OLD_UUID).error_code == 0, "an observer"


@pytest.mark.parametrize(("node_id", "protocol"), [(-7, 0), (7, 4), (7, 26_624)])
def test_controller_registration_that_stock_nodes_cannot_replay_is_rejected(
    node_id: int, protocol: int
) -> None:
    cluster = ControlledCluster()
    listener = RegisteredListener(name="C", host="here", port=1, security_protocol=protocol)
    answer = register(cluster, node_id, listeners=(listener,))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message
    assert not cluster.decided
