"""The leader's side of AlterQuorum in the planner's model: it moves to the target, one voter at a time.

It adds no voters. The planner must leave two cases alone: a removal that it would undo, and a target that can't be reached.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.quorum_model import Model


def pursue_target(model: "Model") -> None:
    """Remove one voter that is not in the target, or clear a target that is reached."""
    if model.target is None or model.leader is None:
        return
    voters, wanted = model.voters[model.index], {each.id for each in model.target}
    surplus = [key for key in voters if key.id not in wanted]
    going = next((key for key in surplus if key != model.leader), None)
    if going is not None:
        size = len(voters) - 1
        if sum(key != going for key in model.live()) >= size // 2 + 1:
            voters.remove(going)
            model.offset += 1
            model.changes.append(("-", going))
    elif not surplus and {key.id for key in voters} == wanted:
        model.target = None
        model.offset += 1
