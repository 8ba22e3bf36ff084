"""Which recorded quotas a filter finds, as stock brokers answer (KIP-546)."""

import pytest
from immutables import Map

from quorum_node.image.quotas import ClientQuotasImage
from quorum_node.protocol.describe_client_quotas import (
    MATCH_DEFAULT,
    MATCH_EXACT,
    MATCH_SPECIFIED,
    DescribeClientQuotasRequest,
    QuotaFilterComponent,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.quotas_api import describe_quotas

RATE = "producer_byte_rate"
ENTITIES = (
    (("client-id", "c"),),
    (("client-id", None), ("user", "u")),
    (("user", "u"),),
    (("user", None),),
)
IMAGE = ClientQuotasImage(Map({each: Map({RATE: 10.0 + n}) for n, each in enumerate(ENTITIES)}))


def asked(*components: tuple[str, int, str | None], strict: bool = False) -> list[str]:
    body = DescribeClientQuotasRequest(
        components=tuple(
            QuotaFilterComponent(entity_type=kind, match_type=match, match=name)
            for kind, match, name in components
        ),
        strict=strict,
    )
    answer = describe_quotas(IMAGE, body)
    if answer.error_code:
        assert answer.entries is None
        return [ErrorCode(answer.error_code).name]
    found = []
    for each in answer.entries or ():
        assert [value.key for value in each.values] == [RATE]
        names = ",".join(f"{p.entity_type}={p.entity_name}" for p in each.entity)
        found.append(f"{names}:{each.values[0].value:g}")
    return found


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ((), False, ["client-id=None,user=u:11", "client-id=c:10", "user=None:13", "user=u:12"]),
        ((), True, []),
        ((("user", MATCH_EXACT, "u"),), False, ["client-id=None,user=u:11", "user=u:12"]),
        ((("user", MATCH_EXACT, "u"),), True, ["user=u:12"]),
        ((("user", MATCH_DEFAULT, None),), False, ["user=None:13"]),
        ((("user", MATCH_SPECIFIED, None),), True, ["user=None:13", "user=u:12"]),
        (
            (("user", MATCH_EXACT, "u"), ("client-id", MATCH_DEFAULT, None)),
            True,
            ["client-id=None,user=u:11"],
        ),
        ((("ip", MATCH_SPECIFIED, None),), False, []),
        ((("", MATCH_EXACT, "u"),), False, ["INVALID_REQUEST"]),
        ((("group", MATCH_EXACT, "u"),), False, ["UNSUPPORTED_VERSION"]),
        ((("user", 3, None),), False, ["INVALID_REQUEST"]),
        ((("user", MATCH_EXACT, None),), False, ["INVALID_REQUEST"]),
        ((("user", MATCH_DEFAULT, "u"),), False, ["INVALID_REQUEST"]),
        (
            (("user", MATCH_EXACT, "u"), ("user", MATCH_EXACT, "v")),
            False,
            ["INVALID_REQUEST"],
        ),
    ],
)
def test_quota_filter_matches_like_that_of_a_stock_broker(
    components: tuple[tuple[str, int, str | None], ...], strict: bool, found: list[str]
) -> None:
    assert asked(*components, strict=strict) == found
