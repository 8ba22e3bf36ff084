"""What the planner's models hold steps against, written out once more and not imported from the planner."""

from quorum_operator.planner import step as steps

MOVES = (
    *(steps.CreateIdentity, steps.CreateMember, steps.ScaleToZero, steps.DeleteIncarnation),
    *(steps.AddVoter, steps.RemoveVoter, steps.TransferLeadership),
)
"""Steps that make, stop, remove or move a member."""


class Unsafe(AssertionError):
    """A step that must never be taken in this state."""


def majority(size: int) -> int:
    return size // 2 + 1
