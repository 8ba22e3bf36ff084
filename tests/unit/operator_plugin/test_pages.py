"""What `kubectl quorum` prints, from resources that a real API server gave in each state.

`RECORD_QUORUM_STATES=FOLDER pytest -m long tests/envtest/test_plugin.py` records them again.
"""

import copy
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from quorum_operator.planner.condition_reasons import REASONS
from quorum_operator.plugin import pages
from quorum_operator.plugin.layout import age, fields, table
from quorum_operator.plugin.pages import members_page, status_page, summary_line
from quorum_operator.status_crd import Phase
from support.source_tree import ROOT

Object = dict[str, Any]

_RECORDED = Path(__file__).parent / "recorded"
_STATES = tuple(sorted(each.stem for each in _RECORDED.glob("*.json")))


def recorded(state: str) -> tuple[Object, list[Object], float]:
    """The resource, its events, and a moment after the last of them."""
    document = json.loads((_RECORDED / f"{state}.json").read_text())
    events = document["events"]
    last = max(datetime.fromisoformat(each["lastTimestamp"]).timestamp() for each in events)
    return document["resource"], events, last + 5


def page(state: str, width: int = 80) -> list[str]:
    resource, events, now = recorded(state)
    return status_page(resource, events, now, width)


def test_recorded_pages_cover_the_relevant_states() -> None:
    assert set(_STATES) == {
        "Forming",
        "Ready",
        "Repairing",
        "QuorumLost",
        "Recovering",
        "Paused",
    }


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize("state", _STATES)
@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_the_width(state: str, width: int) -> None:
    lines = page(state, width)
    assert max(map(len, lines)) <= width
    resource, _, _ = recorded(state)
    assert max(map(len, members_page(resource, width))) <= width


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize("state", _STATES)
def test_page_names_state_members_and_next_step(state: str) -> None:
    resource, events, _ = recorded(state)
    status = resource["status"]
    text = " ".join("\n".join(page(state)).split())
    assert f"Phase {state}: " in text
    assert f"{status['voters']} of {resource['spec']['replicas']} wanted" in text
    assert status["plan"]["reason"] in text
    assert status["clusterId"] in text
    for member in status["members"]:
        number = f"{member['id']}-{member['incarnation']}" if "incarnation" in member else ""
        assert number in text
        assert member.get("condition", "") in text
    newest = max(events, key=lambda each: datetime.fromisoformat(each["lastTimestamp"]))
    assert newest["reason"] in text


@pytest.mark.requirement("OP-10")
def test_lost_quorum_page_shows_survivors_and_offered_recovery() -> None:
    resource, _, _ = recorded("QuorumLost")
    lines = page("QuorumLost")
    text = " ".join("\n".join(lines).split())
    loss = resource["status"]["quorumLoss"]
    assert "no majority confirms one" in text
    assert " ".join(loss["message"].split()) in text
    at = lines.index("    recovery:")
    given = dict(line.split(": ") for line in lines[at + 1 : at + 5])
    offer = {key.strip(): value.strip('"') for key, value in given.items()}
    assert offer == {key: str(value) for key, value in loss["offer"].items()}


def test_page_gives_the_reason_when_no_recovery_is_offered() -> None:
    resource, events, now = recorded("QuorumLost")
    loss = resource["status"]["quorumLoss"]
    del loss["offer"]
    loss["noOffer"] = "no replica answers"
    assert "No recovery is offered: no replica answers" in status_page(resource, events, now)


@pytest.mark.requirement("OP-10")
def test_healthy_conditions_are_omitted_and_others_link_their_page() -> None:
    assert "Conditions to look at:" not in page("Ready")
    resource, events, now = recorded("Ready")
    condition = {"type": "DiskFull", "status": "True", "reason": "DiskFull", "message": "of 2"}
    resource["status"]["conditions"].append(condition)
    lines = status_page(resource, events, now)
    assert "  DiskFull=True (DiskFull)" in lines
    assert "    See docs/how-to/conditions/DiskFull.md" in lines


@pytest.mark.parametrize("kind", sorted(REASONS))
def test_conditions_are_rated_as_on_their_documentation_page(kind: str) -> None:
    """Each type has a page, and the index of pages lists the usual value."""
    index = (ROOT / "docs/how-to/conditions/README.md").read_text()
    row = next(line for line in index.splitlines() if line.startswith(f"| [{kind}]"))
    usual = row.split("|")[2].strip()
    assert usual.startswith(pages.USUAL.get(kind, "False"))


def test_every_phase_has_an_explanation() -> None:
    assert set(pages.PHASES) == {each.value for each in Phase}


def test_paused_page_says_how_to_resume() -> None:
    resource, _, _ = recorded("Paused")
    meta = resource["metadata"]
    text = "\n".join(page("Paused"))
    assert f"kubectl quorum resume {meta['name']} -n {meta['namespace']}" in text


def test_spec_change_not_yet_observed_by_the_operator_is_shown() -> None:
    resource, events, now = recorded("Ready")
    resource["metadata"]["generation"] = resource["status"]["observedGeneration"]
    message = "has not seen the latest change"
    assert message not in "\n".join(status_page(resource, events, now))
    resource["metadata"]["generation"] += 1
    assert message in "\n".join(status_page(resource, events, now))


def test_missing_status_is_explained_as_a_missing_operator() -> None:
    meta = {"name": "q", "namespace": "blue"}
    for resource in ({"metadata": meta}, {"metadata": meta, "status": {"conditions": []}}):
        text = " ".join("\n".join(status_page(resource, [], 0.0)).split())
        assert "no operator watches namespace blue" in text


def test_suspected_failure_is_shown_with_its_member() -> None:
    resource, events, now = recorded("Ready")
    suspected = {"reason": "FailedMount", "subject": "u", "since": "2026-01-01T00:00:00Z"}
    resource["status"]["members"][1]["suspected"] = suspected
    lines = status_page(resource, events, now)
    row = next(at for at, line in enumerate(lines) if line.startswith("2-"))
    assert lines[row + 1].strip().startswith("may have a failed disk: FailedMount since")
    assert "FailedMount of u since" in "\n".join(members_page(resource))


def test_long_names_fit_120_columns_and_wrap_on_80() -> None:
    resource, events, now = recorded("Ready")
    for member in resource["status"]["members"]:
        member["node"] = "ip-10-20-30-40.eu-central-1.compute.internal.example.org"
    lines = status_page(resource, events, now, 120)
    assert sum("compute.internal.example.org" in line for line in lines) == 3
    assert max(map(len, status_page(resource, events, now, 80))) <= 80


def test_one_line_shows_what_changes() -> None:
    resource, _, _ = recorded("Repairing")
    line = summary_line(resource)
    assert line.startswith("Repairing, leader 1, members [1-2*")
    changed = copy.deepcopy(resource)
    changed["status"]["members"][0]["ready"] = False
    assert summary_line(changed) != line
    assert summary_line({"metadata": {}}).startswith("no status")


def test_last_column_wraps_within_its_column() -> None:
    lines = table(("A", "B"), [("x", "one two three four five six seven eight")], 30)
    assert lines == ["A  B", "x  one two three four five six", "   seven eight"]
    assert fields([("Name", "a b c"), ("", "more")], 80) == ["Name  a b c", "      more"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (119, "119s"), (120, "2m"), (7300, "2h"), (200_000, "2d")],
)
def test_ages_are_formatted_as_in_kubectl(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_event_without_message_and_repair_without_duration_are_shown() -> None:
    """Others may post events, and edit the status."""
    resource, events, now = recorded("Ready")
    begun = {
        "id": 1,
        "incarnation": 1,
        "reason": "StorageFailed",
        "startedAt": "2026-01-01T00:00:00Z",
    }
    resource["status"]["repairs"] = [{**begun, "finishedAt": "2026-01-01T00:01:00Z"}]
    lines = status_page(resource, [{**events[0], "message": None}], now)
    assert any("StorageFailed" in line and "done" in line for line in lines)
    assert "  AGE  TYPE" in next(line for line in lines if "MESSAGE" in line)
