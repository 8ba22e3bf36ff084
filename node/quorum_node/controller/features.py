"""UpdateFeatures: finalized levels of features, and initial records of a new cluster. PURE.

Owns the checks: each level has to be supported by this controller, all registered brokers and all
controllers, otherwise nothing changes. A level applies to everything that is written after its
record (K631-13: no restart).
Source: KIP-584, KIP-778, KIP-1022, as a stock 4.3 controller answers.
"""

from collections.abc import Iterator, Mapping, Sequence

from quorum_node.controller.decision import Decision
from quorum_node.controller.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    LOWEST_METADATA_VERSION,
    OF_A_NEW_CLUSTER,
    SUPPORTED,
)
from quorum_node.controller.topic_config_types import TOPIC_CONFIGS
from quorum_node.controller.topic_settings import ALL_BROKERS, MIN_INSYNC_REPLICAS
from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.resource_types import BROKER
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.features import (
    FeatureUpdate,
    FeatureUpdateResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from quorum_node.records.metadata import (
    METADATA_VERSION,
    AbortTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataMessage,
    SupportedFeature,
)
from quorum_node.records.metadata.metadata_version import CONTROLLER_REGISTRATION_LEVEL

_NO_CONFIGS: Mapping[str, str] = {}


def begin(
    image: ClusterImage,
    *,
    in_transaction: bool,
    first_credentials: Sequence[MetadataMessage] = (),
    static_configs: Mapping[str, str] = _NO_CONFIGS,
) -> tuple[MetadataMessage, ...]:
    """The first records of a new active controller.

    On a new cluster, where no metadata.version is finalized yet: the initial levels, the first
    users (KIP-900) and the `min.insync.replicas` of all brokers. On any cluster: the abort of a
    transaction that the controller before has left open (only stock controllers open any).
    """
    records: list[MetadataMessage] = []
    if in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if METADATA_VERSION not in image.features.levels:
        records += [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in OF_A_NEW_CLUSTER.items()
        ]
        records += first_credentials
        records.append(_min_insync_replicas_of_all(static_configs))
    return tuple(records)


def _min_insync_replicas_of_all(static_configs: Mapping[str, str]) -> ConfigRecord:
    """The `min.insync.replicas` of this node's configuration becomes the value of the whole cluster.

    Eligible leader replicas require one value for all brokers and controllers.
    """
    value = static_configs.get(MIN_INSYNC_REPLICAS, TOPIC_CONFIGS[MIN_INSYNC_REPLICAS].default)
    return ConfigRecord(
        resource_type=BROKER, resource_name=ALL_BROKERS, name=MIN_INSYNC_REPLICAS, value=value
    )


def _before_eligible_replicas(view: View) -> Iterator[MetadataMessage]:
    """Records required before eligible leader replicas are enabled: one `min.insync.replicas` for
    all brokers, and no eligible replicas.

    Replicas that were eligible before the level was lowered may have stopped uncleanly since, which
    was not recorded.
    """
    if not view.image.features.level(ELIGIBLE_LEADER_REPLICAS) and any(
        each.eligible_leader_replicas
        for topic in view.image.topics
        for each in topic.partitions.values()
    ):
        yield ClearElrRecord(topic_name="")
    configs = view.image.configs
    if MIN_INSYNC_REPLICAS not in configs.of(BROKER, ALL_BROKERS):
        yield _min_insync_replicas_of_all(view.settings.static_configs)
    for kind, name in configs.by_resource:
        if kind == BROKER and name != ALL_BROKERS and MIN_INSYNC_REPLICAS in configs.of(kind, name):
            yield ConfigRecord(
                resource_type=BROKER, resource_name=name, name=MIN_INSYNC_REPLICAS, value=None
            )


def unknown_levels(image: ClusterImage) -> Iterator[str]:
    """Finalized features that this controller does not support.

    With any of them it must not decide anything.
    """
    for name, level in sorted(image.features.levels.items()):
        if name not in SUPPORTED or level not in SUPPORTED[name]:
            yield f"{name}={level}"


def update_features(view: View, request: UpdateFeaturesRequest) -> Decision:
    """All updates are made, or none."""
    records: list[MetadataMessage] = []
    seen: set[str] = set()
    for update in request.feature_updates:
        problem = _problem(view, update, seen) or _dependency(view, request, update)
        if problem is not None:
            error = ErrorCode.INVALID_UPDATE_VERSION
            text = (
                f"Invalid update version {update.max_version_level} for feature"
                f" {update.feature}. {problem}"
            )
            return Decision(answer=refuse_update_features(request, error, text))
        seen.add(update.feature)
        records.append(
            FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        )
    answer = UpdateFeaturesResponse(
        error_code=0,
        results=tuple(
            FeatureUpdateResult(feature=each.feature, error_code=0)
            for each in request.feature_updates
        ),
    )
    if request.validate_only:
        return Decision(answer=answer)
    asked = {each.feature: each.max_version_level for each in request.feature_updates}
    if asked.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
        records = [*_before_eligible_replicas(view), *records]
    return Decision(tuple(records), answer)


def refuse_update_features(
    request: UpdateFeaturesRequest, error: ErrorCode, text: str
) -> UpdateFeaturesResponse:
    """Nothing changes."""
    return UpdateFeaturesResponse(error_code=error, error_message=text)


def _problem(view: View, update: FeatureUpdate, seen: set[str]) -> str | None:
    name, level = update.feature, update.max_version_level
    if name in seen:
        return "The feature is in the request more than once."
    try:
        way = UpgradeType(update.upgrade_type)
    except ValueError:
        return "The controller does not support the given upgrade type."
    if update.allow_downgrade:
        way = UpgradeType.SAFE_DOWNGRADE
    if level < 0:
        return "A feature version cannot be less than 0."
    unsupported = _unsupported_by(view, name, level)
    if unsupported is not None:
        return unsupported
    current = view.image.features.level(name)
    if level < current and way is UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if level > current and way is not UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    if name == METADATA_VERSION and level < current:
        return _metadata_downgrade(current, level, way)
    return None


def _dependency(view: View, request: UpdateFeaturesRequest, update: FeatureUpdate) -> str | None:
    """Why a level needs a newer metadata.version than the present or requested one; None if it does not."""
    needed = LOWEST_METADATA_VERSION.get(update.feature, 0)
    asked = {each.feature: each.max_version_level for each in request.feature_updates}
    level = asked.get(METADATA_VERSION, view.image.features.metadata_version)
    if update.max_version_level == 0 or level >= needed:
        return None
    return (
        f"{update.feature} could not be set to {update.max_version_level} because it depends on"
        f" metadata.version level {needed}"
    )


def _metadata_downgrade(current: int, level: int, way: UpgradeType) -> str | None:
    """A downgrade is allowed only if no record format differs between the two levels."""
    if not any(level < changed <= current for changed in _CHANGED_FORMATS):
        return None
    if way is UpgradeType.UNSAFE_DOWNGRADE:
        return "Unsafe metadata downgrade is not supported in this version."
    return (
        "Refusing to perform the requested downgrade because it might delete metadata information."
    )


_CHANGED_FORMATS = (8, 11, 13, 14, 15, 17, 23, 30)
"""Levels of metadata.version that changed the content of records."""


def _unsupported_by(view: View, name: str, level: int) -> str | None:
    """The node that does not support the level: this controller, a broker, or another controller; None if all do."""
    own = SUPPORTED.get(name)
    if own is None:
        return f"Controller {view.node_id} does not support this feature."
    if level not in own and not (level == 0 and name != METADATA_VERSION):
        return f"Controller {view.node_id} only supports versions {own.min_level}-{own.max_level}"
    nodes: list[tuple[str, Sequence[SupportedFeature]]] = [
        (f"Broker {each.broker_id}", each.features) for each in view.image.brokers.by_id.values()
    ]
    # Below that level controllers can't register, so they are not checked (as in Kafka).
    asked = view.image.features.metadata_version >= CONTROLLER_REGISTRATION_LEVEL
    registered = view.image.controllers.by_id if asked else {}
    nodes += [
        (f"Controller {each}", registered[each].features)
        for each in sorted(registered)
        if each != view.node_id
    ]
    for node, features in nodes:
        lacks = _lacks(node, features, name, level)
        if lacks is not None:
            return lacks
    for voter_id in view.voter_ids if asked else ():
        if voter_id not in registered and voter_id != view.node_id:
            return f"controller {voter_id} has not registered, and may not support this feature"
    return None


def _lacks(node: str, features: Sequence[SupportedFeature], name: str, level: int) -> str | None:
    for each in features:
        if each.name == name:
            low, high = each.min_supported_version, each.max_supported_version
            return None if low <= level <= high else f"{node} only supports versions {low}-{high}"
    return None if level == 0 else f"{node} does not support this feature."
