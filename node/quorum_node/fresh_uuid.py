"""New UUIDs for replicas and clusters; the only place that generates them.

Source: Kafka's `Uuid.randomUuid`, which leaves out the same values: a text form with a leading dash
reads as an option wherever it becomes a command line argument (`--controller-directory-id -5rO...`).
"""

from uuid import UUID, uuid4

from quorum_node.records.identity import uuid_text


def fresh_uuid() -> UUID:
    """A random UUID whose text form can be an argument of any command line tool."""
    while True:
        uuid = uuid4()
        if not uuid_text(uuid).startswith("-"):
            return uuid
