"""Identities of the planner's model that are deleted, or lose their annotations, and are created again."""

from dataclasses import replace
from typing import TYPE_CHECKING

from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import Founding
from support.model_rules import Unsafe
from support.modelled_pods import Set

if TYPE_CHECKING:
    from support.quorum_model import Model


def permits(each: Set) -> bool:
    """Whether its process may format its directory as the founder's."""
    return each.template.endswith("-True")


def founding_of(model: "Model", each: Set) -> Founding | None:
    """The founding that its template names."""
    born = model.born[each.formation]
    if not permits(each):
        return None
    return Founding(born.founder_id, born.founder_uuid, born.initial_voters)


def delete_identity(model: "Model") -> None:
    """The ConfigMap of the current formation is deleted."""
    model.identities = [each for each in model.identities if each.index != model.index]


def strip_identity(model: "Model") -> None:
    """The annotations of all identities are removed."""
    model.identities = [replace(each, formed=False, restarting=None) for each in model.identities]


def rebuild_identity(model: "Model", step: steps.RebuildIdentity) -> None:
    """Check that it has the same content as before, and permits nothing that is over."""
    if any(each.index == step.index for each in model.identities):
        return
    born = model.born[step.index]
    if step.cluster_id != born.cluster_id:
        raise Unsafe(f"{step} is another cluster than {born}")
    if model.formed.get(step.index, False) and not step.formed:
        raise Unsafe(f"{step} permits to form a quorum that has formed")
    if step.founding is None:
        made = replace(born, founder_id=0, founder_uuid="", formed=step.formed)
    else:
        reported = step.founding
        same = (reported.founder_id, reported.founder_uuid, reported.initial_voters)
        if same != (born.founder_id, born.founder_uuid, born.initial_voters):
            raise Unsafe(f"{step} has another founder than {born}")
        made = replace(born, formed=step.formed)
    model.identities.append(made)
    model.forgotten = False
