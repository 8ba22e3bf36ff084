"""Result of a command of the controller: records to append, and the response after their commit. PURE.

Owns the type. Must not know any particular command.
Source: KIP-631, "Persistence and Visibility": nothing of a decision is visible before it is committed.
"""

from dataclasses import dataclass

from quorum_node.made_often import made_often
from quorum_node.records.metadata import MetadataMessage
from quorum_node.schema.schema import Message


@made_often
@dataclass(frozen=True, slots=True)
class Decision:
    """`atomic`: the records take effect together or not at all, so they must fit into one batch.

    The response is sent when the records are committed. Without records it is sent when all earlier
    decisions are committed, as it may reflect them.

    `refused`: why the request is refused, for the log of the controller. Only set where the response
    has no field for it.
    """

    records: tuple[MetadataMessage, ...] = ()
    answer: Message | None = None
    atomic: bool = True
    refused: str = ""
