"""One call to the admin API of a pod: how long it may take, and what a refusal says.

Owns the timeout and the outcome of a call that needs the admin token. Must not know what is asked, or which
pods: that is `quorum_client.py` and `partition_client.py`; nor how they are reached (`door.py`). Expected failures are values, never exceptions.
"""

from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from quorum_node.api import ErrorBody
from quorum_operator.door import Door

NO_ANSWER = "NO_ANSWER"
"""Code of an Answer when nobody answered."""
CHANGE_TIMEOUT_MS = 5000
"""For what has to be committed before the node answers."""
_SLACK_S = 1.0
"""The node keeps to its limit; its answer takes the way back."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome of a mutating call. `code` is the node's, or NO_ANSWER."""

    done: bool
    code: str = ""
    message: str = ""


async def call(
    door: Door,
    method: str,
    ip: str,
    path: str,
    token: str,
    body: str | None,
    timeout_ms: int = CHANGE_TIMEOUT_MS,
) -> httpx.Response | Answer:
    """The answer of a node that did what was asked; else why not. `timeout_ms`: what the node was given for it."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    timeout = limit(timeout_ms / 1000 + _SLACK_S)
    try:
        answer = await door.request(
            method, ip, path, timeout=timeout, headers=headers, content=body
        )
    except httpx.HTTPError as error:
        return Answer(False, NO_ANSWER, f"{type(error).__name__}: {error}")
    if answer.status_code < 300:
        return answer
    try:
        told = ErrorBody.model_validate_json(answer.content)
    except ValidationError:
        return malformed(answer)
    return Answer(False, told.code, told.message)


def malformed(answer: httpx.Response) -> Answer:
    """What is told of an answer that is no document of the admin API."""
    return Answer(False, str(answer.status_code), answer.text[:200])


def limit(seconds: float) -> httpx.Timeout:
    """For connecting, and for the answer, of a call to a node. What waits for a free connection is not silent yet."""
    return httpx.Timeout(seconds, pool=None)
