"""What the demo says of TLS, and fails on."""

from typing import Any

import pytest

from support.envtest.kube_api import ApiError
from support.kind_env.tls_facts import look

CERTIFICATE = {"certificate": {"sha256": "ab"}, "migration": None, "problem": None}
GOOD: dict[str, Any] = {"mode": "Managed", "authority": 1}


class Quorum:
    """Two members; `tls`: what the second one says of itself, `answer`: its answer in clear text, a status or a document."""

    def __init__(self, told: Any = GOOD, tls: Any = CERTIFICATE, answer: Any = 404) -> None:
        self.told, self.tls, self.answer = told, tls, answer

    def status(self) -> dict[str, Any]:
        return {"tls": self.told}

    def pods(self) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}} for name in ("one", "two")]

    def fetch_from(self, pod: str, path: str) -> dict[str, Any]:
        return {"tls": self.tls if pod == "two" else CERTIFICATE}

    def in_clear_text(self, pod: str, path: str) -> dict[str, Any]:
        answer = self.answer if pod == "two" else 404
        if isinstance(answer, int):
            raise ApiError("GET", path, answer, "")
        found: dict[str, Any] = answer
        return found


def test_quorum_with_tls_only_has_no_problem() -> None:
    facts = look(Quorum())
    assert (facts.text, facts.problems) == ("2 of 2, authority 1", ())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tls": None}, "two presents no certificate"),
        ({"tls": {**CERTIFICATE, "migration": "dial"}}, "two also accepts clear text: dial"),
        ({"tls": {**CERTIFICATE, "problem": "it expired"}}, "it expired"),
        ({"answer": {}}, "two serves the admin API in clear text"),
        ({"answer": 401}, "two answers 401 in clear text"),
    ],
)
def test_member_without_tls_is_a_problem(wrong: dict[str, Any], says: str) -> None:
    facts = look(Quorum(**wrong))
    assert facts.secured == 1
    (problem,) = facts.problems
    assert says in problem


def test_quorum_without_tls_in_its_status_is_a_problem() -> None:
    assert look(Quorum(told=None)).problems == ("the status says of TLS: None",)
