"""DescribeClientQuotas: the quotas that are recorded in the metadata.

Owns the filter. Quotas are recorded by the active controller; this broker does not enforce them yet.
Source: KIP-546, the rules of a stock broker.
"""

from collections.abc import Callable, Mapping

from quorum_node.controller.client_quotas import CLIENT_ID, IP, USER
from quorum_node.image.quotas import ClientQuotasImage, Entity
from quorum_node.protocol.client_quotas import QuotaEntityPart
from quorum_node.protocol.describe_client_quotas import (
    MATCH_DEFAULT,
    MATCH_EXACT,
    MATCH_SPECIFIED,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuota,
    DescribedQuotaEntity,
    QuotaFilterComponent,
)
from quorum_node.protocol.errors import ErrorCode

_TYPES = (USER, CLIENT_ID, IP)
_Test = Callable[[str | None], bool]


def describe_quotas(
    image: ClientQuotasImage, body: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """The quotas that match, or an error if the filter is invalid."""
    tests: dict[str, _Test] = {}
    for each in body.components:
        wrong = _wrong(each, tests)
        if wrong is not None:
            code, text = wrong
            return DescribeClientQuotasResponse(error_code=code, error_message=text)
        tests[each.entity_type] = _test(each)
    entries = tuple(
        _described(entity, image.by_entity[entity])
        for entity in sorted(image.by_entity, key=_order)
        if _matches(dict(entity), tests, strict=body.strict)
    )
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, entries=entries)


def _wrong(each: QuotaFilterComponent, known: Mapping[str, _Test]) -> tuple[ErrorCode, str] | None:
    kind = each.entity_type
    if not kind:
        return ErrorCode.INVALID_REQUEST, "an entity type is empty"
    if kind not in _TYPES:
        return (
            ErrorCode.UNSUPPORTED_VERSION,
            f"entity type {kind!r} is not one of {', '.join(_TYPES)}",
        )
    if kind in known:
        return ErrorCode.INVALID_REQUEST, f"entity type {kind} occurs more than once in the filter"
    if each.match_type not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
        return ErrorCode.INVALID_REQUEST, f"match type {each.match_type} is unknown"
    if (each.match_type == MATCH_EXACT) != (each.match is not None):
        return (
            ErrorCode.INVALID_REQUEST,
            "a name is required for an exact match, and not allowed for others",
        )
    return None


def _test(each: QuotaFilterComponent) -> _Test:
    if each.match_type == MATCH_SPECIFIED:
        return lambda _: True
    return lambda name: name == each.match


def _matches(parts: Mapping[str, str | None], tests: Mapping[str, _Test], *, strict: bool) -> bool:
    if strict and parts.keys() - tests.keys():
        return False
    return all(kind in parts and test(parts[kind]) for kind, test in tests.items())


def _order(entity: Entity) -> list[tuple[str, bool, str]]:
    return [(kind, name is not None, name or "") for kind, name in entity]


def _described(entity: Entity, quotas: Mapping[str, float]) -> DescribedQuotaEntity:
    parts = tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity)
    values = tuple(DescribedQuota(key=key, value=quotas[key]) for key in sorted(quotas))
    return DescribedQuotaEntity(entity=parts, values=values)
