"""The operator's log is followed across restarts, each line once, and bugs are distinguished from expected errors."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from support.envtest.kube_api import Json
from support.kind_env.kube import Kube
from support.kind_env.waiting import wait_for
from support.random_changes.operator_log import OperatorLog


class _Api:
    """One operator pod; its log is read from the start after each restart."""

    def __init__(self) -> None:
        self.logged: list[str] = []
        self.reads = 0

    def list(self, path: str, selector: str = "") -> list[Json]:
        return [{"metadata": {"name": "operator-1"}}]

    def lines(self, path: str, query: Mapping[str, str], *, quiet_s: float) -> Iterator[str]:
        self.reads += 1
        yield from list(self.logged)


def line(second: int, **record: object) -> str:
    at = f"2026-11-23T11:00:{second:02d}Z"
    return f"{at} {json.dumps({'timestamp': at, 'namespace': 'mine', **record})}"


def followed(*logged: str, until: Callable[[OperatorLog], object]) -> OperatorLog:
    api = _Api()
    api.logged = list(logged)
    log = OperatorLog(cast(Kube, api), "mine")
    log.look()
    log.look()
    wait_for("the lines", lambda: until(log) and api.reads > 2, timeout_s=10, poll_s=0.02)
    return log


def test_each_log_record_is_returned_once_in_order_with_its_time() -> None:
    log = followed(
        line(2, event="step", step="AddVoter", changed=True),
        line(1, event="step", step="CreateMember", changed=True),
        line(1, event="step", step="CreateMember", changed=True, namespace="another"),
        "2026-11-23T11:00:03Z no JSON at all",
        until=lambda log: len(log.tail(9)) == 4,
    )
    log.end()
    assert [each["step"] for each in log.steps()] == ["CreateMember", "AddVoter"]
    assert log.steps()[1]["at"] - log.steps()[0]["at"] == 1.0
    assert len(log.tail(9)) == 4


def test_exception_in_our_code_is_a_bug() -> None:
    ours = 'Traceback\n  File "quorum_operator/reconcile.py"\nKeyError: 3'
    theirs = 'Traceback\n  File "kopf/watching.py"\nTimeoutError'
    log = followed(
        line(1, event="reconcile failed", exception=ours),
        line(2, event="watch failed", exception=theirs),
        until=lambda log: len(log.tail(9)) == 2,
    )
    log.end()
    assert log.bugs() == ["the operator: reconcile failed: KeyError: 3"]
