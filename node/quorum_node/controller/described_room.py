"""Limits the size of the response to one DescribeConfigs request. PURE.

A resource of a few bytes in the request becomes dozens of configs in the response, which is kept in
memory and created on the event loop. Without a limit one small request could block the node for
longer than an election takes. Must not know configs (`config_descriptions.py`).
Source: rule of this project.
"""

from collections.abc import Callable

from quorum_node.controller.problem import Problem
from quorum_node.protocol.configs import ConfigSynonym, DescribedConfig
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.decoder import MAX_ELEMENTS, MAX_STRING_BYTES

MAX_BYTES = 16 << 20
"""Limit of names and values in one response."""
_SHORT = MAX_STRING_BYTES // 4
"""Number of characters that always fit, so most texts need not be encoded."""
_TOO_MUCH = Problem(
    ErrorCode.POLICY_VIOLATION,
    f"one answer has at most {MAX_ELEMENTS} configs and {MAX_BYTES} bytes: ask for fewer resources at once",
)

Found = tuple[DescribedConfig, ...] | Problem


class DescribedRoom:
    """Remaining size for further resources of one request. At least one resource is described."""

    __slots__ = ("_bytes", "_elements")

    def __init__(self) -> None:
        self._elements = MAX_ELEMENTS
        self._bytes = MAX_BYTES

    def describe(self, resource: Callable[[], Found]) -> Found:
        """The configs of one more resource, or the problem if the limit is reached."""
        if self._elements <= 0 or self._bytes <= 0:
            return _TOO_MUCH
        found = resource()
        if isinstance(found, Problem):
            return found
        for config in found:
            self._elements -= 1 + len(config.synonyms)
            shown: tuple[DescribedConfig | ConfigSynonym, ...] = (config, *config.synonyms)
            for each in shown:
                self._bytes -= len(each.name) + len(each.value or "")
                if not (_is_expressible(each.name) and _is_expressible(each.value or "")):
                    return _inexpressible(each.name)
        return found


def _is_expressible(text: str) -> bool:
    """Whether it fits into a string of Kafka's protocol. Logs of older versions have longer ones."""
    return len(text) <= _SHORT or len(text.encode()) <= MAX_STRING_BYTES


def _inexpressible(name: str) -> Problem:
    text = f"{name[:100]}: its name or value has more than {MAX_STRING_BYTES} bytes, and Kafka's protocol has no longer strings: read it with the admin API"
    return Problem(ErrorCode.INVALID_CONFIG, text)
