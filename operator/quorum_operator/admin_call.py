"""One call to the admin API of a pod: its timeout, and the meaning of an error.

Owns the timeout and the outcome of a call that needs the admin token. Requests and the choice of pods belong to
`quorum_client.py` and `partition_client.py`, connections to `pod_client.py`. Expected failures are values, never
exceptions.
"""

from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from quorum_node.api import ErrorBody
from quorum_operator.pod_client import MOST_BYTES, PodClient

NO_ANSWER = "NO_ANSWER"
"""Code of an Answer if no node answered."""
CHANGE_TIMEOUT_MS = 5000
"""Time limit for requests that the node answers after a commit."""
_SLACK_S = 1.0
"""Additional time for the answer to arrive; the node enforces the limit itself."""
_LARGEST = 2**63 - 1

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome of a mutating call. `code` is the node's, or NO_ANSWER."""

    done: bool
    code: str = ""
    message: str = ""


async def call(
    pod_client: PodClient,
    method: str,
    ip: str,
    path: str,
    token: str,
    body: str | None,
    timeout_ms: int = CHANGE_TIMEOUT_MS,
    most_bytes: int = MOST_BYTES,
) -> httpx.Response | Answer:
    """The node's answer on success, else the reason of the failure. `timeout_ms`: time limit given to the node;
    `most_bytes`: limit of the answer.
    """
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    timeout = limit(timeout_ms / 1000 + _SLACK_S)
    try:
        answer = await pod_client.request(
            method, ip, path, timeout=timeout, headers=headers, content=body, most_bytes=most_bytes
        )
    except httpx.HTTPError as error:
        return Answer(False, NO_ANSWER, f"{type(error).__name__}: {error}")
    if answer.status_code < 300:
        return answer
    try:
        failure = ErrorBody.model_validate_json(answer.content)
    except ValidationError:
        return malformed(answer)
    return Answer(False, failure.code, failure.message)


def document(model: type[M], answer: httpx.Response) -> M:
    """The document of an answer. Raises ValueError if it is none, or has a number that no node has: a JSON number may
    have thousands of digits, which neither a status nor a metric can hold.
    """
    found = model.model_validate_json(answer.content)
    if not _has_usual_numbers(found):
        raise ValueError("a number has more than 64 bits")
    return found


def _has_usual_numbers(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) <= _LARGEST
    if isinstance(value, BaseModel):
        return all(map(_has_usual_numbers, value.__dict__.values()))
    return not isinstance(value, list) or all(map(_has_usual_numbers, value))


def malformed(answer: httpx.Response) -> Answer:
    """Error for an answer that is not a document of the admin API."""
    return Answer(False, str(answer.status_code), answer.text[:200])


def limit(seconds: float) -> httpx.Timeout:
    """Timeouts of a call to a node. Waiting for a free connection is not limited by them."""
    return httpx.Timeout(seconds, pool=None)
