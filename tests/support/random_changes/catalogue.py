"""All acts, and those that are not drawn yet."""

from support.random_changes import (
    alter_acts,
    annotation_acts,
    certificate_acts,
    cluster_acts,
    field_acts,
    host_acts,
    lasting_acts,
    manual_acts,
    object_acts,
    paired_acts,
    process_acts,
    spec_acts,
    takeover_acts,
    update_acts,
    volume_acts,
)
from support.random_changes.act import Act

EVERY: tuple[Act, ...] = (
    *spec_acts.ACTS,
    *update_acts.ACTS,
    *object_acts.ACTS,
    *process_acts.ACTS,
    *host_acts.ACTS,
    *lasting_acts.ACTS,
    *alter_acts.ACTS,
    *certificate_acts.ACTS,
    *annotation_acts.ACTS,
    *cluster_acts.ACTS,
    *paired_acts.ACTS,
    *field_acts.ACTS,
    *manual_acts.ACTS,
    *volume_acts.ACTS,
    *takeover_acts.ACTS,
)

HELD_BACK: dict[str, str] = {}
"""Acts by name that do not settle yet, and why. Empty is the aim."""

DRAWN: tuple[Act, ...] = tuple(each for each in EVERY if each.name not in HELD_BACK)
"""What rounds are drawn from."""


def named(name: str) -> Act:
    """The act of this name."""
    return next(each for each in EVERY if each.name == name)
