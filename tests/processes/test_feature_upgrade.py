"""An upgrade ends with a finalized level: node by node under load, and no format changes before that (K631-13)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_node.protocol.apis import BROKER_REGISTRATION, UPDATE_FEATURES
from quorum_node.protocol.broker_registration import BrokerRegistrationResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.features import (
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.metadata import (
    LATEST_LEVEL,
    METADATA_VERSION,
)
from support.broker_requests import registration
from support.founded_level import found_at_level
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask
from support.previous_version import NoHistory, previous_node
from support.quorum_writer import Writer, assert_nothing_lost

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K631-13")]

OLD_LEVEL = LATEST_LEVEL - 1
FORMATS = {OLD_LEVEL: 3, LATEST_LEVEL: 4}
"""Version of RegisterBrokerRecord (KIP-1066 has added cordoned directories)."""
REGISTER_BROKER = 0


def register(quorum: LocalQuorum, broker_id: int) -> None:
    """A broker's process registers."""

    def attempt() -> bool:
        request = registration(broker_id, cluster_id=quorum.cluster_id)
        answer = ask(("127.0.0.1", quorum.leader.port), BROKER_REGISTRATION, 4, request)
        assert isinstance(answer, BrokerRegistrationResponse)
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER), answer
        return answer.error_code == ErrorCode.NONE

    wait_until(attempt, f"broker {broker_id} is registered")


def finalize(quorum: LocalQuorum, level: int) -> None:
    """As kafka-features does it."""
    update = FeatureUpdate(
        feature=METADATA_VERSION, max_version_level=level, upgrade_type=UpgradeType.UPGRADE
    )

    def attempt() -> bool:
        request = UpdateFeaturesRequest(feature_updates=(update,))
        answer = ask(("127.0.0.1", quorum.leader.port), UPDATE_FEATURES, 1, request)
        assert isinstance(answer, UpdateFeaturesResponse)
        return answer.error_code == ErrorCode.NONE

    wait_until(attempt, f"level {level} is finalized: all controllers support it")


def formats(node: LocalNode) -> list[int]:
    """Versions of the RegisterBrokerRecords in a node's own log, as they are on its disk."""
    return [value[2] for value in _values(node) if value[1] == REGISTER_BROKER]


def wait_for_formats(quorum: LocalQuorum, expected: list[int]) -> None:
    """Wait until all nodes have as many of these records: a follower may fetch the last one later. Then compare their versions."""

    def all_fetched() -> bool:
        return all(len(formats(node)) >= len(expected) for node in quorum.nodes.values())

    wait_until(all_fetched, f"all nodes have {len(expected)} registrations")
    assert [formats(node) for node in quorum.nodes.values()] == [expected] * len(quorum.nodes)


def _values(node: LocalNode) -> Iterator[bytes]:
    for path in sorted((node.data_dir / "__cluster_metadata-0").glob("*.log")):
        for batch in split_batches(path.read_bytes().rstrip(b"\0"))[0]:
            if not batch.header.is_control:
                yield from (record.value or b"" for record in decode_records(batch))


def test_rolling_upgrade_raises_the_feature_level_last_and_changes_no_format_before(
    make_quorum, tmp_path: Path
) -> None:
    try:
        older = previous_node(tmp_path / "previous")
    except NoHistory as missing:
        pytest.skip(str(missing))
    quorum = make_quorum(3, initial_voters=1)
    for node in quorum.nodes.values():
        node.prefix = older
    found_at_level(quorum.nodes[1], OLD_LEVEL)
    quorum.form()
    for node_id in (2, 3):
        quorum.add_voter(node_id)
    expected = [FORMATS[OLD_LEVEL]]
    register(quorum, 101)
    with Writer(quorum) as writer:
        for number, node in enumerate(quorum.nodes.values()):
            assert node.terminate() == 0, node.log_text[-2000:]
            node.prefix = ()
            node.start()
            quorum.wait_caught_up(node.id)
            writer.more()
            register(quorum, 102 + number)
            expected.append(FORMATS[OLD_LEVEL])
        wait_for_formats(quorum, expected)
        processes = [node.process.pid for node in quorum.nodes.values() if node.process]
        finalize(quorum, LATEST_LEVEL)
        register(quorum, 110)
        expected.append(FORMATS[LATEST_LEVEL])
        writer.more()
    wait_for_formats(quorum, expected)
    assert [node.process.pid for node in quorum.nodes.values() if node.process] == processes
    assert_nothing_lost(quorum, writer.acknowledged)
