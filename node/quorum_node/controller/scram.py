"""AlterUserScramCredentials and DescribeUserScramCredentials: credentials of SASL/SCRAM users as
records. PURE.

Owns the checks and the stored keys: only StoredKey and ServerKey of RFC 5802 are kept.
Source: KIP-554, KIP-900; RFC 5802, section 3.
"""

from collections import Counter

from quorum_node.controller.decision import Decision
from quorum_node.controller.problem import Problem
from quorum_node.controller.topics import MAX_RECORDS
from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorum_node.records.metadata import (
    MetadataMessage,
    RemoveUserScramCredentialRecord,
)
from quorum_node.records.metadata.metadata_version import SCRAM_LEVEL
from quorum_node.security.scram.credential import made_from_salted_password
from quorum_node.security.scram.mechanism import (
    MAX_ITERATIONS,
    MECHANISMS_BY_NUMBER,
    MIN_ITERATIONS,
)


def alter_scram_credentials(view: View, request: AlterUserScramCredentialsRequest) -> Decision:
    """Every user gets one result, and can be in the request once."""
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [
        *request.deletions,
        *request.upsertions,
    ]
    times = Counter(change.name for change in changes)
    results: dict[str, AlterUserScramCredentialsResult] = {}
    records: list[MetadataMessage] = []
    for change in changes:
        if change.name in results:
            continue
        problem = _problem(view, change)
        if problem is None and times[change.name] > 1:
            text = f"{change.name} is in the request more than once"
            problem = Problem(ErrorCode.DUPLICATE_RESOURCE, text)
        if problem is None and len(records) == MAX_RECORDS:
            text = f"one request changes at most {MAX_RECORDS} credentials"
            problem = Problem(ErrorCode.POLICY_VIOLATION, text)
        if problem is None:
            records.append(_record(change))
        results[change.name] = _result(change.name, problem)
    answer = AlterUserScramCredentialsResponse(results=tuple(results.values()))
    return Decision(tuple(records), answer)


def refuse_alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, text: str
) -> AlterUserScramCredentialsResponse:
    """The same answer for every user."""
    deleted = (change.name for change in request.deletions)
    names = dict.fromkeys([*deleted, *(change.name for change in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=tuple(_result(name, Problem(error, text)) for name in names)
    )


def describe_scram_credentials(
    view: View, request: DescribeUserScramCredentialsRequest
) -> Decision:
    """Mechanisms and iterations, never keys."""
    return Decision(answer=described_credentials(view.image, request))


def described_credentials(
    image: ClusterImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """The same for an image."""
    asked = [each.name for each in request.users or ()]
    asked = asked or sorted({user for _, user in image.scram.by_user})
    times = Counter(asked)
    results = []
    for user in dict.fromkeys(asked):
        code, text = ErrorCode.NONE, None
        infos: tuple[CredentialInfo, ...] = ()
        if times[user] > 1:
            code, text = ErrorCode.DUPLICATE_RESOURCE, f"{user} is in the request more than once"
        elif not (infos := _infos(image, user)):
            code, text = ErrorCode.RESOURCE_NOT_FOUND, f"{user} has no SCRAM credentials"
        results.append(
            DescribeUserScramCredentialsResult(
                user=user, error_code=code, error_message=text, credential_infos=infos
            )
        )
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, results=tuple(results))


def _infos(image: ClusterImage, user: str) -> tuple[CredentialInfo, ...]:
    found = ((number, image.scram.get(number, user)) for number in sorted(MECHANISMS_BY_NUMBER))
    return tuple(
        CredentialInfo(mechanism=number, iterations=record.iterations)
        for number, record in found
        if record is not None
    )


def refuse_describe_scram_credentials(
    request: DescribeUserScramCredentialsRequest, error: ErrorCode, text: str
) -> DescribeUserScramCredentialsResponse:
    """One error."""
    return DescribeUserScramCredentialsResponse(error_code=error, error_message=text)


def _problem(
    view: View, change: ScramCredentialDeletion | ScramCredentialUpsertion
) -> Problem | None:
    if view.image.features.metadata_version < SCRAM_LEVEL:
        text = "the finalized metadata.version does not support SCRAM credentials"
        return Problem(ErrorCode.UNSUPPORTED_VERSION, text)
    if not change.name:
        return Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of a user can't be empty")
    if change.mechanism not in MECHANISMS_BY_NUMBER:
        text = (
            f"{change.mechanism} is not a SCRAM mechanism: SCRAM-SHA-256 is 1, SCRAM-SHA-512 is 2"
        )
        return Problem(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
    if isinstance(change, ScramCredentialDeletion):
        if view.image.scram.get(change.mechanism, change.name) is not None:
            return None
        text = f"{change.name} has no credential for that mechanism"
        return Problem(ErrorCode.RESOURCE_NOT_FOUND, text)
    if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        text = f"iterations have to be from {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {change.iterations}"
        return Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    return None


def _record(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> MetadataMessage:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    mechanism = MECHANISMS_BY_NUMBER[change.mechanism]
    made = made_from_salted_password(
        mechanism, change.salted_password, change.salt, change.iterations
    )
    return made.record(change.name, mechanism)


def _result(user: str, problem: Problem | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=problem.code if problem is not None else ErrorCode.NONE,
        error_message=problem.text if problem is not None else None,
    )
