"""Connections to other nodes, and the requests that go out on them."""
