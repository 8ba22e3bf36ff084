"""Log lines say which resource they are about, and what is wrong with the operator's own access."""

import asyncio
from typing import Any

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from quorum_operator import application
from quorum_operator.application import Application
from quorum_operator.kube.errors import ApiError, Forbidden, Unavailable
from quorum_operator.metrics import Metrics
from quorum_operator.reconcile import Next
from quorum_operator.workers import Workers


async def test_log_lines_of_equal_names_have_the_namespace() -> None:
    done = {"blue": asyncio.Event(), "green": asyncio.Event()}

    class Failing:
        async def reconcile(self, namespace: str, name: str) -> Next:
            structlog.get_logger("quorum_operator").info("below", quorum=name)
            done[namespace].set()
            raise Unavailable(0, "ConnectError", "refused")

    workers = Workers("MetadataQuorum", Failing(), Metrics(), 10.0)
    with capture_logs(processors=[merge_contextvars]) as lines:
        for namespace in done:
            workers.ensure(namespace, "demo")
        await asyncio.gather(*(each.wait() for each in done.values()))
        await workers.stop()
    for event in ("below", "reconcile failed"):
        found = [each["namespace"] for each in lines if each["event"] == event]
        assert sorted(found) == ["blue", "green"], event


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Forbidden(403, "Forbidden", "no"), "check its service account and rights"),
        (Unavailable(0, "ConnectError", "refused"), "can't be reached yet"),
    ],
)
async def test_start_distinguishes_missing_rights_from_an_outage(
    error: ApiError, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "DEFINITION_RETRY_S", 0.0)
    answers: list[Any] = [
        error,
        {"resources": [{"name": "metadataquorums"}, {"name": "partitionreassignments"}]},
    ]

    class Api:
        async def get(self, _path: str) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    api: Any = Api()
    with capture_logs() as lines:
        await Application._await_definitions(api)
    (line,) = lines
    assert says in line["event"]
    assert line["error"] == str(error)
