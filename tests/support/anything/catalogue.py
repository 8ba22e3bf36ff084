"""All acts, and those that are not drawn yet."""

from support.anything import host_acts, left_acts, object_acts, process_acts, spec_acts
from support.anything.act import Act

EVERY: tuple[Act, ...] = (
    *spec_acts.ACTS,
    *object_acts.ACTS,
    *process_acts.ACTS,
    *host_acts.ACTS,
    *left_acts.ACTS,
)

HELD_BACK: dict[str, str] = {
    "host-stays-away": "not played on kind yet",
    "recreate": "played once, on a machine that was too busy for the operator to keep its Lease",
}
"""Acts by name that do not settle yet, and why. Empty is the aim."""

DRAWN: tuple[Act, ...] = tuple(each for each in EVERY if each.name not in HELD_BACK)
"""What rounds are drawn from."""


def named(name: str) -> Act:
    """The act of this name."""
    return next(each for each in EVERY if each.name == name)
