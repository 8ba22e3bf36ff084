"""Quotas of clients as records: what is refused, what is written, what is left alone."""

import pytest

from quorum_node.controller.client_quotas import alter_client_quotas
from quorum_node.protocol.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    QuotaEntityPart,
    QuotaOperation,
)
from quorum_node.protocol.errors import ErrorCode
from support.controlled_cluster import ControlledCluster

Parts = tuple[tuple[str, str | None], ...]
USER: Parts = (("user", "a"),)
PAIR: Parts = (("user", "a"), ("client-id", None))
PAIR_KEY: Parts = (("client-id", None), ("user", "a"))
ADDRESS: Parts = (("ip", "10.0.0.1"),)
RATE = "producer_byte_rate"


@pytest.fixture
def cluster() -> ControlledCluster:
    return ControlledCluster()


def entry(parts: Parts, **quotas: float | None) -> AlteredQuotaEntity:
    """None removes a quota."""
    return AlteredQuotaEntity(
        entity=tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in parts),
        ops=tuple(
            QuotaOperation(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ),
    )


def alter(
    cluster: ControlledCluster, *entries: AlteredQuotaEntity, validate_only: bool = False
) -> list[ErrorCode]:
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    answer = cluster.ask(alter_client_quotas, request, AlterClientQuotasResponse)
    assert [each.entity for each in answer.entries] == [each.entity for each in entries]
    assert all(each.error_message for each in answer.entries if each.error_code)
    return [ErrorCode(each.error_code) for each in answer.entries]


def test_quotas_are_set_changed_and_removed(cluster: ControlledCluster) -> None:
    first = (
        entry(PAIR, producer_byte_rate=1e6, request_percentage=12.5),
        entry(ADDRESS, connection_creation_rate=10),
    )
    assert alter(cluster, *first) == [ErrorCode.NONE] * 2
    by_entity = cluster.image.client_quotas.by_entity
    assert dict(by_entity[PAIR_KEY]) == {RATE: 1e6, "request_percentage": 12.5}
    assert dict(by_entity[ADDRESS]) == {"connection_creation_rate": 10}

    gone = entry(ADDRESS, connection_creation_rate=None)
    assert alter(cluster, entry(PAIR[::-1], producer_byte_rate=2e6), gone) == [ErrorCode.NONE] * 2
    by_entity = cluster.image.client_quotas.by_entity
    assert {key: dict(quotas) for key, quotas in by_entity.items()} == {
        PAIR_KEY: {RATE: 2e6, "request_percentage": 12.5}
    }


def test_unchanged_quota_is_not_written(cluster: ControlledCluster) -> None:
    alter(cluster, entry(USER, producer_byte_rate=5))
    before = len(cluster.decided)
    same = entry(USER, producer_byte_rate=5, consumer_byte_rate=None)
    assert alter(cluster, same) == [ErrorCode.NONE]
    assert alter(cluster, entry(USER, producer_byte_rate=7), validate_only=True) == [ErrorCode.NONE]
    assert len(cluster.decided) == before


@pytest.mark.parametrize(
    "bad",
    [
        entry((), producer_byte_rate=1),
        entry((("group", "a"),), producer_byte_rate=1),
        entry((("user", ""),), producer_byte_rate=1),
        entry((*USER, *ADDRESS), producer_byte_rate=1),
        entry((("ip", "10.0.0.256"),), connection_creation_rate=1),
        entry((("ip", "no host"),), connection_creation_rate=1),
        entry(ADDRESS, producer_byte_rate=1),
        entry(USER, connection_creation_rate=1),
        entry(USER, nope=1),
        entry(USER, producer_byte_rate=-1),
        entry(USER, producer_byte_rate=float("inf")),
        entry(USER, producer_byte_rate=float("nan")),
        entry(USER, producer_byte_rate=1.5),
        entry(USER, producer_byte_rate=1e19),
        entry(ADDRESS, connection_creation_rate=3e9),
    ],
)
def test_invalid_quota_changes_are_rejected_and_others_applied(
    cluster: ControlledCluster, bad: AlteredQuotaEntity
) -> None:
    good = entry((("user", "b"),), producer_byte_rate=1)
    assert alter(cluster, bad, good) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert set(cluster.image.client_quotas.by_entity) == {(("user", "b"),)}


def test_invalid_quota_rejects_all_quotas_of_its_entity(cluster: ControlledCluster) -> None:
    assert alter(cluster, entry(USER, producer_byte_rate=1, nope=1)) == [ErrorCode.INVALID_REQUEST]
    assert not cluster.decided


def test_default_address_and_host_names_are_allowed(cluster: ControlledCluster) -> None:
    entities: tuple[Parts, ...] = (
        (("ip", None),), (("ip", "localhost"),), (("ip", "::1"),), (("ip", "a.example."),),
    )  # fmt: skip
    entries = [entry(parts, connection_creation_rate=1) for parts in entities]
    assert alter(cluster, *entries) == [ErrorCode.NONE] * 4


def test_quota_changes_per_request_are_limited(cluster: ControlledCluster) -> None:
    many = [entry((("user", f"u{number}"),), producer_byte_rate=1.0) for number in range(10_001)]
    assert set(alter(cluster, *many)) == {ErrorCode.POLICY_VIOLATION}
    assert not cluster.image.client_quotas.by_entity
    assert set(alter(cluster, *many[:-1])) == {ErrorCode.NONE}
