"""CreateAcls, DeleteAcls, DescribeAcls: access control entries as records. PURE.

Owns the checks, and which entries match a filter. `security/authorizer.py` evaluates entries.
Source: KIP-11, KIP-140, KIP-290 (patterns), KIP-801.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quorum_node.controller.authorization import CLUSTER_NAME, WILDCARD, AclResource
from quorum_node.controller.decision import Decision
from quorum_node.controller.problem import Problem
from quorum_node.controller.topics import MAX_RECORDS
from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    AccessControlEntryRecord,
    MetadataMessage,
    RemoveAccessControlEntryRecord,
)

_ANY = 1
_MATCH, _LITERAL, _PREFIXED = 2, 3, 4
_LAST_RESOURCE_TYPE = 7
_LAST_OPERATION = 15
_DENY, _ALLOW = 2, 3
_NO_AUTHORIZER = Problem(
    ErrorCode.SECURITY_DISABLED,
    "no authorizer is configured (authorizer.class.name), so entries would have no effect",
)


MAX_COMPARISONS = 2_000_000
"""Maximum comparisons of filters with entries in one request: about a second. The first filter is always applied."""
_TOO_MANY_FILTERS = Problem(
    ErrorCode.POLICY_VIOLATION,
    f"one request compares filters and entries at most {MAX_COMPARISONS} times: send fewer filters at once",
)


class _Entry(NamedTuple):
    """Key of an entry: it is unique."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def create_acls(view: View, request: CreateAclsRequest) -> Decision:
    """Every entry gets its own result. An entry that exists already is not written again."""
    if not view.settings.has_authorizer:
        return Decision(
            answer=refuse_create_acls(request, _NO_AUTHORIZER.code, _NO_AUTHORIZER.text)
        )
    made: set[_Entry] = set()
    records: list[MetadataMessage] = []
    results = []
    for creation in request.creations:
        problem = _creation_problem(creation)
        entry = _Entry(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        if problem is None and entry not in made and not _exists(view.image, entry):
            if len(records) < MAX_RECORDS:
                made.add(entry)
                records.append(AccessControlEntryRecord(id=view.fresh_uuid(), **entry._asdict()))
            else:
                text = f"one request makes at most {MAX_RECORDS} entries"
                problem = Problem(ErrorCode.POLICY_VIOLATION, text)
        results.append(_created(problem))
    return Decision(tuple(records), CreateAclsResponse(results=tuple(results)))


def refuse_create_acls(
    request: CreateAclsRequest, error: ErrorCode, text: str
) -> CreateAclsResponse:
    """The same answer for every entry."""
    return CreateAclsResponse(
        results=tuple(_created(Problem(error, text)) for _ in request.creations)
    )


def delete_acls(view: View, request: DeleteAclsRequest) -> Decision:
    """Every filter gets its own result: the entries that matched it."""
    if not view.settings.has_authorizer:
        return Decision(
            answer=refuse_delete_acls(request, _NO_AUTHORIZER.code, _NO_AUTHORIZER.text)
        )
    removed: dict[int, AccessControlEntryRecord] = {}
    results = []
    room, listed = MAX_COMPARISONS, 0
    for wanted in request.filters:
        problem = _filter_problem(wanted) or (_TOO_MANY_FILTERS if room <= 0 else None)
        room -= len(view.image.acls.by_id)
        found = [] if problem is not None else list(_matching(view.image, wanted))
        if listed + len(found) > MAX_RECORDS:
            # Each filter lists all its entries in the answer, those of earlier filters as well.
            text = f"one request removes at most {MAX_RECORDS} entries: narrow the filter"
            problem, found = Problem(ErrorCode.POLICY_VIOLATION, text), []
        listed += len(found)
        removed.update((each.id.int, each) for each in found)
        results.append(_deleted(found, problem))
    records = tuple(RemoveAccessControlEntryRecord(id=each.id) for each in removed.values())
    return Decision(records, DeleteAclsResponse(filter_results=tuple(results)))


def refuse_delete_acls(
    request: DeleteAclsRequest, error: ErrorCode, text: str
) -> DeleteAclsResponse:
    """The same answer for every filter."""
    return DeleteAclsResponse(
        filter_results=tuple(_deleted([], Problem(error, text)) for _ in request.filters)
    )


def describe_acls(view: View, request: DescribeAclsRequest) -> Decision:
    """The entries that match a filter, by resource."""
    has_authorizer = view.settings.has_authorizer
    return Decision(answer=described_acls(view.image, request, has_authorizer=has_authorizer))


def described_acls(
    image: ClusterImage, request: DescribeAclsRequest, *, has_authorizer: bool
) -> DescribeAclsResponse:
    """The same for an image."""
    problem = _filter_problem(request) if has_authorizer else _NO_AUTHORIZER
    if problem is not None:
        return refuse_describe_acls(request, problem.code, problem.text)
    by_resource: dict[tuple[int, str, int], list[AclDescription]] = {}
    for found in _matching(image, request):
        key = (found.resource_type, found.resource_name, found.pattern_type)
        by_resource.setdefault(key, []).append(
            AclDescription(
                principal=found.principal,
                host=found.host,
                operation=found.operation,
                permission_type=found.permission_type,
            )
        )
    resources = tuple(
        DescribeAclsResource(
            resource_type=kind, resource_name=name, pattern_type=pattern, acls=tuple(acls)
        )
        for (kind, name, pattern), acls in by_resource.items()
    )
    return DescribeAclsResponse(error_code=ErrorCode.NONE, resources=resources)


def refuse_describe_acls(
    request: DescribeAclsRequest, error: ErrorCode, text: str
) -> DescribeAclsResponse:
    """One error."""
    return DescribeAclsResponse(error_code=error, error_message=text)


def _creation_problem(creation: AclCreation) -> Problem | None:
    text = None
    if not _ANY < creation.resource_type <= _LAST_RESOURCE_TYPE:
        text = f"{creation.resource_type} is not a resource type"
    elif creation.resource_pattern_type not in (_LITERAL, _PREFIXED):
        text = "the pattern type of an entry has to be literal or prefixed"
    elif not _ANY < creation.operation <= _LAST_OPERATION:
        text = f"{creation.operation} is not an operation"
    elif creation.permission_type not in (_DENY, _ALLOW):
        text = "the permission type of an entry has to be allow or deny"
    elif not creation.resource_name:
        text = "the resource name is empty"
    elif creation.resource_type == AclResource.CLUSTER and creation.resource_name != CLUSTER_NAME:
        text = f"the resource name of the cluster is {CLUSTER_NAME}"
    elif ":" not in creation.principal:
        text = f"a principal has the form Type:name, such as User:alice, not {creation.principal!r}"
    return None if text is None else Problem(ErrorCode.INVALID_REQUEST, text)


def _filter_problem(wanted: DeleteAclsFilter | DescribeAclsRequest) -> Problem | None:
    known = (
        _ANY <= wanted.resource_type_filter <= _LAST_RESOURCE_TYPE
        and _ANY <= wanted.pattern_type_filter <= _PREFIXED
        and _ANY <= wanted.operation <= _LAST_OPERATION
        and _ANY <= wanted.permission_type <= _ALLOW
    )
    if known:
        return None
    text = "the filter has a resource type, pattern type, operation or permission that is unknown"
    return Problem(ErrorCode.INVALID_REQUEST, text)


def _matching(
    image: ClusterImage, wanted: DeleteAclsFilter | DescribeAclsRequest
) -> Iterator[AccessControlEntryRecord]:
    for entry in image.acls:
        if (
            wanted.resource_type_filter in (_ANY, entry.resource_type)
            and wanted.operation in (_ANY, entry.operation)
            and wanted.permission_type in (_ANY, entry.permission_type)
            and wanted.principal_filter in (None, entry.principal)
            and wanted.host_filter in (None, entry.host)
            and _is_named(wanted.resource_name_filter, wanted.pattern_type_filter, entry)
        ):
            yield entry


def _is_named(name: str | None, pattern_type: int, entry: AccessControlEntryRecord) -> bool:
    if pattern_type not in (_ANY, _MATCH, entry.pattern_type):
        return False
    if name is None:
        return True
    if pattern_type != _MATCH:
        return name == entry.resource_name
    if entry.pattern_type == _PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in (name, WILDCARD)


def _exists(image: ClusterImage, entry: _Entry) -> bool:
    found = image.acls.index.equal_to(
        entry.resource_type, entry.pattern_type, entry.resource_name, entry.principal, entry.host
    )
    return any(_entry(each) == entry for each in found)


def _entry(record: AccessControlEntryRecord) -> _Entry:
    return _Entry(*(getattr(record, field) for field in _Entry._fields))


def _created(problem: Problem | None) -> AclCreationResult:
    return AclCreationResult(
        error_code=problem.code if problem is not None else ErrorCode.NONE,
        error_message=problem.text if problem is not None else None,
    )


def _deleted(
    found: list[AccessControlEntryRecord], problem: Problem | None
) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=problem.code if problem is not None else ErrorCode.NONE,
        error_message=problem.text if problem is not None else None,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(error_code=ErrorCode.NONE, **_entry(each)._asdict())
            for each in found
        ),
    )
