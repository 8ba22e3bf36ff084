"""What is said of one API: key, messages, versions. `apis.py` has the table."""

from dataclasses import dataclass, field

from quorum_node.schema.schema import Message


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One API; both ends of its versions are inclusive."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    min_version: int
    max_version: int
    flexible_since: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "flexible_since", self.request.FLEXIBLE_SINCE)
