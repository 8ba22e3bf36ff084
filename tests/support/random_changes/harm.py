"""Checks whether the operator took a quorum below its majority. Pure: from samples of the live voters, and the operator's stops.

Acts may do so; the operator may not. A voter that went down less than `KNOWN_AFTER_S` seconds before a stop still counts as live, because
the operator could not have known. So does one that is live in the first sample after the stop: it came up since the last sample before.
One that came up less than `KNOWN_UP_S` seconds before its own stop does not count yet.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from support.envtest.kube_api import Json

KNOWN_AFTER_S = 6.0
"""A leader takes a voter for live until its fetch timeout has passed, and its pod is looked at every other second."""
KNOWN_UP_S = 1.0
"""A kubelet reports that a container has started up to this long after it did. Until then nobody can ask its process."""

_STOPPING = frozenset({"ScaleToZero", "RestartMember", "DeleteIncarnation"})
_BY_A_PERSON = ("FencedByRecovery", "the quorum is recovered from", "sole voter")
_SET = re.compile(r"\b[a-z][-a-z0-9]*-(\d+)-\d+\b")


@dataclass(frozen=True, slots=True)
class Sample:
    """The live voters at one moment: voters that follow the leader, and the leader, whose pods run.

    Names are those of the StatefulSets. `size`: of the voter set.
    """

    at: float
    size: int
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stop:
    """A step of the operator that ends a member's process."""

    at: float
    step: str
    name: str
    reason: str


def stops(steps: Sequence[Json]) -> list[Stop]:
    """Of the records of the operator's log: steps that were carried out and end a process."""
    return [
        Stop(each["at"], each["step"], found[0], each["reason"])
        for each in steps
        if each["step"] in _STOPPING and each.get("changed")
        if not any(words in each["reason"] for words in _BY_A_PERSON)
        if (found := _SET.search(each["reason"])) is not None
    ]


def harm(samples: Sequence[Sample], stopped: Sequence[Stop]) -> list[str]:
    """A sentence for each stop that left fewer than a majority of live voters."""
    return list(_harm(samples, stopped))


def _harm(samples: Sequence[Sample], stopped: Sequence[Stop]) -> Iterator[str]:
    for each in stopped:
        window = [one for one in samples if each.at - KNOWN_AFTER_S <= one.at < each.at]
        up = [one for one in window if one.at >= each.at - KNOWN_UP_S] or window[-1:]
        if not up or not all(each.name in one.live for one in up):
            continue
        size = window[-1].size
        after = next((one for one in samples if one.at >= each.at), window[-1])
        others = {
            name
            for one in (*window, after)
            for name in one.live
            if name != each.name and not _stopped_between(stopped, name, one.at, each.at)
        }
        # With one or two voters a restart is possible only this way; scaling down never is.
        is_small_restart = size <= 2 and each.step == "RestartMember"
        if len(others) < (size - 1 if is_small_restart else size // 2 + 1):
            yield (
                f"{each.step} of {each.name} ({each.reason}) left {sorted(others)} live of {size} voters"
            )


def _stopped_between(stopped: Sequence[Stop], name: str, start: float, end: float) -> bool:
    return any(other.name == name and start - 1.0 <= other.at < end for other in stopped)
