"""AlterClientQuotas: limits of clients by user, client id and address, as records. PURE.

Owns the checks. Brokers enforce the limits; the controller only stores them. Each entity of a
request gets its own result, and changes as a whole or not at all.
Source: KIP-546, KIP-612 (addresses), KIP-599 (controller mutations), and what a stock controller
refuses.
"""

import ipaddress
import re
from collections.abc import Mapping

from quorum_node.controller.decision import Decision
from quorum_node.controller.problem import Problem
from quorum_node.controller.topics import MAX_RECORDS
from quorum_node.controller.view import View
from quorum_node.image.quotas import Entity
from quorum_node.protocol.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    AlteredQuotaResult,
    QuotaOperation,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import ClientQuotaRecord, MetadataMessage, QuotaEntity

USER, CLIENT_ID, IP = "user", "client-id", "ip"
_WHOLE, _FRACTION = True, False
_CLIENT_KEYS: Mapping[str, bool] = {
    "producer_byte_rate": _WHOLE,
    "consumer_byte_rate": _WHOLE,
    "request_percentage": _FRACTION,
    "controller_mutation_rate": _FRACTION,
}
_ADDRESS_KEYS: Mapping[str, bool] = {"connection_creation_rate": _WHOLE}
"""The quotas, and whether their values are integers."""
_LARGEST = {"connection_creation_rate": 2**31 - 1}
_LARGEST_WHOLE = 2**63 - 1
_WHOLE_ENOUGH = 1e-6
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\.?")


def alter_client_quotas(view: View, request: AlterClientQuotasRequest) -> Decision:
    """Only changed values are written. Of two changes of one quota the later counts."""
    records: list[MetadataMessage] = []
    results = []
    current = view.image.client_quotas.by_entity
    for entry in request.entries:
        problem = _entity_problem(entry) or _operations_problem(entry)
        results.append(_result(entry, problem))
        if problem is None:
            records += _records(entry, current.get(_key_of(entry), {}))
    if len(records) > MAX_RECORDS:
        text = f"one request changes at most {MAX_RECORDS} quotas: ask for fewer at once"
        return Decision(
            answer=refuse_alter_client_quotas(request, ErrorCode.POLICY_VIOLATION, text)
        )
    answer = AlterClientQuotasResponse(entries=tuple(results))
    return Decision(() if request.validate_only else tuple(records), answer)


def refuse_alter_client_quotas(
    request: AlterClientQuotasRequest, error: ErrorCode, text: str
) -> AlterClientQuotasResponse:
    """The same answer for every entity."""
    return AlterClientQuotasResponse(
        entries=tuple(_result(entry, Problem(error, text)) for entry in request.entries)
    )


def _entity_problem(entry: AlteredQuotaEntity) -> Problem | None:
    parts = _parts(entry)
    types, text = list(parts), None
    if not types:
        text = "an entity needs at least one part"
    elif unknown := set(types) - {USER, CLIENT_ID, IP}:
        text = f"{min(unknown)!r} is not an entity type"
    elif "" in parts.values():
        text = "a name can't be empty; use null for the default"
    elif IP in types and len(types) > 1:
        text = "an address can't be combined with a user or a client id"
    elif IP in types and not _is_host(parts[IP]):
        text = f"{parts[IP]!r} is not an IP address"
    return None if text is None else Problem(ErrorCode.INVALID_REQUEST, text)


def _is_host(name: str | None) -> bool:
    """Whether it is an address or a valid host name. (A stock controller asks its resolver.)"""
    if name is None:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        digits = name.replace(".", "").isdigit()
        return not digits and _HOST.fullmatch(name) is not None
    return True


def _operations_problem(entry: AlteredQuotaEntity) -> Problem | None:
    keys = _ADDRESS_KEYS if entry.entity[0].entity_type == IP else _CLIENT_KEYS
    for operation in entry.ops:
        text = None if operation.remove else _value_problem(keys, operation)
        if text is not None:
            return Problem(ErrorCode.INVALID_REQUEST, text)
    return None


def _value_problem(keys: Mapping[str, bool], operation: QuotaOperation) -> str | None:
    key, value = operation.key, operation.value
    if key not in keys:
        return f"{key!r} is not a quota of such an entity"
    if not 0 < value < float("inf"):
        return f"{key} must be greater than 0"
    if keys[key] is _WHOLE:
        if value > _LARGEST.get(key, _LARGEST_WHOLE):
            return f"{key} is too large"
        if abs(value - round(value)) > _WHOLE_ENOUGH:
            return f"{key} must be a whole number"
    return None


def _records(entry: AlteredQuotaEntity, now: Mapping[str, float]) -> list[MetadataMessage]:
    entity = tuple(
        QuotaEntity(entity_type=kind, entity_name=name) for kind, name in _parts(entry).items()
    )
    return [
        ClientQuotaRecord(
            entity=entity,
            key=key,
            value=0.0 if operation.remove else operation.value,
            remove=operation.remove,
        )
        for key, operation in {each.key: each for each in entry.ops}.items()
        if (key in now if operation.remove else now.get(key) != operation.value)
    ]


def _key_of(entry: AlteredQuotaEntity) -> Entity:
    return tuple(sorted(_parts(entry).items(), key=lambda part: part[0]))


def _parts(entry: AlteredQuotaEntity) -> dict[str, str | None]:
    """Name by type. Of a duplicate type the later one counts, as in stock Kafka."""
    return {part.entity_type: part.entity_name for part in entry.entity}


def _result(entry: AlteredQuotaEntity, problem: Problem | None) -> AlteredQuotaResult:
    if problem is None:
        return AlteredQuotaResult(error_code=ErrorCode.NONE, entity=entry.entity)
    return AlteredQuotaResult(
        error_code=problem.code, error_message=problem.text, entity=entry.entity
    )
