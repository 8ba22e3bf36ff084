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
    "delete-identity": "nothing rebuilds it",
    "delete-token": "nodes read their token once",
    "delete-volume": "the volume is kept for inspection by nobody",
    "disown": "the owner is not mended",
    "edit-budget": "drift is not mended",
    "edit-config": "drift is not mended",
    "edit-service": "drift is not mended",
    "edit-set": "drift is not mended",
    "orphan-set": "the orphan's name is taken",
    "scale-set-to-two": "drift is not mended",
    "strip-identity": "a second founder is planned",
    "strip-token": "the owner is not mended",
}
"""Acts by name that do not settle yet, and why. Empty is the aim."""

DRAWN: tuple[Act, ...] = tuple(each for each in EVERY if each.name not in HELD_BACK)
"""What rounds are drawn from."""


def named(name: str) -> Act:
    """The act of this name."""
    return next(each for each in EVERY if each.name == name)
