"""The declaration of an action ("act"). Pure: nothing here touches a cluster.

An act is a generator function. It acts up to its `yield`, whose value describes what was done; a temporary act is undone after the
`yield`. The first line of its docstring is its description.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from support.envtest.kube_api import Json

if TYPE_CHECKING:
    from support.random_changes.operations import Operations

Option = TypeVar("Option")
Doing: TypeAlias = Iterator[str]
Answer: TypeAlias = "Callable[[Operations, str], str]"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One act of a round as the seed decided it. `rank` and `choice` are read modulo what there is."""

    act: "Act"
    at_s: float
    lasts_s: float | None
    rank: int
    leader: bool
    choice: int

    def one_of(self, options: tuple[Option, ...]) -> Option:
        """The item that the seed selects."""
        return options[self.choice % len(options)]

    def __str__(self) -> str:
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s is not None else ""
        whom = "leader" if self.leader else f"rank {self.rank}"
        return f"{self.at_s:5.1f} s {self.act.name}{lasts} ({whom}, choice {self.choice})"


@dataclass(frozen=True, slots=True)
class FinalCondition:
    """A condition that a round may end in: its message says what the administrator has to do.

    `says` is a regular expression that the message has to match; `answer` does exactly that and tells so. `status`: of the
    condition while it asks.
    """

    type: str
    says: str
    answer: Answer
    status: str = "True"

    def holds(self, condition: Json) -> bool:
        """Whether this condition is active and says what to do."""
        return condition["status"] == self.status and bool(
            re.search(self.says, condition["message"])
        )


@dataclass(frozen=True, slots=True)
class Act:
    """A declaration.

    `lasts_s`: minimum and maximum duration of a temporary act; None for a permanent one. `destroys`: number of voters that it may
    destroy, so that no round destroys a majority itself. `wants`: the number of replicas that it asks for. `endings`: conditions in
    which it may end instead of settling. `alone`: no other act in the same round. `halts`: no call is answered meanwhile, so that acts
    that are due, and the ends of others, wait for its end.
    """

    name: str
    family: str
    what: str
    do: "Callable[[Operations, Drawn], Doing]"
    lasts_s: tuple[float, float] | None = None
    destroys: int = 0
    wants: int | None = None
    endings: tuple[FinalCondition, ...] = ()
    alone: bool = False
    halts: bool = False


def act(
    *,
    lasts_s: tuple[float, float] | None = None,
    destroys: int = 0,
    wants: int | None = None,
    endings: tuple[FinalCondition, ...] = (),
    alone: bool = False,
    halts: bool = False,
) -> "Callable[[Callable[[Operations, Drawn], Doing]], Act]":
    """Declare a generator function as an act with its name."""

    def made(do: "Callable[[Operations, Drawn], Doing]") -> Act:
        assert do.__doc__, f"{do.__name__} has no docstring"
        family = do.__module__.rpartition(".")[2].removesuffix("_acts")
        name = do.__name__.replace("_", "-")
        what = do.__doc__.splitlines()[0].rstrip(".")
        return Act(name, family, what, do, lasts_s, destroys, wants, endings, alone, halts)

    return made
