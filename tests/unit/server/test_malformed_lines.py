"""Log lines about invalid bytes: limited, and not silent for ever after one port scan."""

from structlog.testing import capture_logs

from quorum_node.server.observing.node_events import MalformedBytes


def test_lines_are_limited_in_each_hour() -> None:
    now_s = 0.0
    malformed = MalformedBytes(lambda: now_s)
    with capture_logs() as scan:
        for number in range(500):
            malformed.from_client("unknown", f"byte {number}", "192.0.2.1:5")
    assert len(scan) == 101
    assert "further malformed requests" in scan[-1]["event"]
    now_s = 3601.0
    with capture_logs() as later:
        malformed.from_peer("192.0.2.7:9093", "trailing bytes")
    assert [line["event"] for line in later] == [
        "closed the connection to 192.0.2.7:9093: malformed response: trailing bytes"
    ]
