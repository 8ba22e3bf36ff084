"""The page that compares stock controllers with ours, call by call, is correct."""

from pathlib import Path

import pytest

from support import kafka_apis

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]


def test_stock_clients_get_the_documented_results(tmp_path: Path) -> None:
    """All calls of the Admin client on stock Kafka, and on stock brokers with our controllers."""
    assert kafka_apis.page(*kafka_apis.both(tmp_path)) == kafka_apis.PAGE.read_text()
