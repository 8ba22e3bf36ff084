"""New UUIDs: their text must pass as a command line argument of Kafka's tools."""

from uuid import UUID

from quorum_node import fresh_uuid
from quorum_node.records.identity import uuid_text


def test_uuid_with_a_leading_dash_is_generated_again(monkeypatch):
    dashed = UUID(bytes=b"\xf8" + bytes(15))
    plain = UUID(int=1)
    assert uuid_text(dashed).startswith("-")
    draws = iter((dashed, plain))
    monkeypatch.setattr(fresh_uuid, "uuid4", lambda: next(draws))
    assert fresh_uuid.fresh_uuid() == plain
