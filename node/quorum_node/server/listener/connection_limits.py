"""What one connection of Kafka's protocol may have at a time: requests, bytes of requests and answers, and turns of the loop."""

MAX_IN_FLIGHT = 5000
"""Unanswered requests of one voter's connection; beyond it the connection is not read."""
MAX_IN_FLIGHT_OF_CLIENTS = 256
"""The same for connections of other clients."""
MAX_QUEUED_BYTES_OF_CLIENTS = 256 << 10
"""In bytes: unanswered requests of such a connection; one more may exceed it."""
MAX_FRAMES_PER_TURN = 64
"""Requests of one connection that are handled before other connections get their turn."""
MAX_ANSWER_BYTES_PER_TURN = 1 << 20
"""Bytes of answers that end the turn of a connection: its client has to read them first."""
MAX_HELD_BYTES = 1 << 20
"""In bytes: answers of a client that wait for an earlier one, as answers are sent in order; beyond it no further request is handled."""
LIGHT_BYTES = 4 << 10
"""In bytes: requests up to this size are short, if the previous ones were."""
JOINED_BYTES = 64 << 10
"""In bytes: answers up to this size are sent as one piece of memory; copying larger ones would block the loop."""
RETIRED_AFTER_SECONDS = 5.0
"""In seconds: how long a closing connection, also one of HTTP, may wait for its answers; longer than a parked fetch."""
HEAVY_BYTES = 256 << 10
"""In bytes: requests from this size on may take long."""
