"""Log lines of the broker that name a page of the documentation."""

import re

import pytest
from structlog.testing import capture_logs

from quorum_node.server.broker.events import BrokerEvents
from support.source_tree import ROOT

_PAGE = re.compile(r'(docs/\S+\.md), "([^"]+)"')


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        (BrokerEvents.directory_offline, ("/disk1", "it failed")),
        (BrokerEvents.directory_failed, ("/disk1", "it failed", 2)),
        (BrokerEvents.replica_offline, ("t-0",)),
        (BrokerEvents.epochs_went_back, ("t-0", 5, 3)),
    ],
)
def test_log_lines_about_offline_replicas_name_the_page_with_the_repair(
    event: object, arguments: tuple[object, ...]
) -> None:
    assert callable(event)
    with capture_logs() as lines:
        event(BrokerEvents(), *arguments)
    found = _PAGE.search(lines[0]["event"])
    assert found is not None, lines
    page, heading = found.groups()
    assert f"## {heading}\n" in (ROOT / page).read_text()
