"""Events: elections, voter changes, broker failures, unclean elections, reassignments. PURE.

Owns their form and summaries. All times come from the log. An event that has not ended has no end. Durations:

* election: an instant, the first record of the new leader. Its real duration is not in the log; it is at most the
  time since the last record of the old leader;
* replacement: from the record that adds the new replica of a voter, or removes the old one, to the other of the two;
* broker down: from fencing to unfencing; partition offline: without a leader; unclean election: until recovered;
* reassignment: from the record that adds or removes replicas to the one that completes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

ELECTION = "election"
VOTER_ADDED, VOTER_REMOVED, VOTER_REPLACED = "voter added", "voter removed", "voter replaced"
BROKER_DOWN, BROKER_GONE = "broker down", "broker unregistered"
SHUTDOWN = "controlled shutdown"
OFFLINE, UNCLEAN, REASSIGNMENT = "partition offline", "unclean election", "reassignment"
TOPIC_CREATED, TOPIC_DELETED = "topic created", "topic deleted"
KINDS = (
    ELECTION, VOTER_ADDED, VOTER_REMOVED, VOTER_REPLACED, BROKER_DOWN, BROKER_GONE, SHUTDOWN, OFFLINE,
    UNCLEAN, REASSIGNMENT, TOPIC_CREATED, TOPIC_DELETED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `end_ms` None: it has not ended. An event without duration ends when it begins.

    `at_most_ms`: upper bound of the duration of an instant, if only that is known.
    """

    kind: str
    subject: str
    begin_ms: int
    end_ms: int | None
    begin_offset: int
    end_offset: int | None
    detail: str = ""
    at_most_ms: int | None = None

    @property
    def duration_ms(self) -> int | None:
        """Duration; None if it has not ended."""
        return None if self.end_ms is None else self.end_ms - self.begin_ms

    @property
    def is_instant(self) -> bool:
        """Whether the event is one record: then it has no duration."""
        return self.begin_offset == self.end_offset


def since(offset: int) -> str:
    """Return the detail of an event from a snapshot, whose begin is unknown."""
    return f"since offset {offset} or before"


class Summary(NamedTuple):
    """Number of events of a kind; median and longest duration of those that have ended and are not instants.

    `bounds`: the durations are upper bounds, those of instants.
    """

    kind: str
    times: int
    median_ms: int | None
    longest_ms: int | None
    bounds: bool = False


def summary(events: Iterable[Event]) -> list[Summary]:
    """Return the summary of each kind that occurred, in the order of KINDS."""
    found: list[Summary] = []
    every = list(events)
    for kind in KINDS:
        of_kind = [each for each in every if each.kind == kind]
        bounds = [each.at_most_ms for each in of_kind if each.at_most_ms is not None]
        durations = sorted(bounds) or sorted(
            each.duration_ms
            for each in of_kind
            if each.duration_ms is not None and not each.is_instant
        )
        if of_kind:
            median = durations[len(durations) // 2] if durations else None
            longest = durations[-1] if durations else None
            found.append(Summary(kind, len(of_kind), median, longest, bool(bounds)))
    return found
