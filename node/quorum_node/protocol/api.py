"""Description of one API: key, messages, versions.

The module of its messages defines it; `apis.py` has the table.
"""

from dataclasses import dataclass, field

from quorum_node.schema.schema import Message

_SUFFIX = "Request"


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One API; both ends of its versions are inclusive. `name` is that of the request's class."""

    key: int
    request: type[Message]
    response: type[Message]
    min_version: int
    max_version: int
    is_forwardable: bool = field(default=False, kw_only=True)
    """A broker may forward it for a client, in an Envelope (KIP-590)."""
    is_about_quorum: bool = field(default=False, kw_only=True)
    """Its arrays contain voters, listeners and partitions of the quorum, so they are short."""
    ignores_rest: bool = field(default=False, kw_only=True)
    """Bytes after a request's last field are ignored, as by a stock broker for all APIs."""
    name: str = field(init=False)
    flexible_since: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.request.__name__.removesuffix(_SUFFIX))
        object.__setattr__(self, "flexible_since", self.request.FLEXIBLE_SINCE)
