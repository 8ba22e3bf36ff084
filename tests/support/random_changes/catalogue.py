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

_NOT_PLAYED = "not played on kind yet"
HELD_BACK: dict[str, str] = {
    **{
        each.name: _NOT_PLAYED
        for acts in (alter_acts, update_acts, field_acts, manual_acts, volume_acts, takeover_acts)
        for each in acts.ACTS
    },
    "members-on-different-hosts": _NOT_PLAYED,
    **dict.fromkeys(
        (
            "hold-pod",
            "kill-api-server",
            "delete-everything",
            "recreate-orphaned",
            "pause-while-disk-fails",
            "new-property-while-disk-fails",
            "kill-operator-while-disk-fails",
            "cordon-all-while-disk-fails",
            "stop-host-while-set-is-deleted",
            "edit-pod-image",
        ),
        _NOT_PLAYED,
    ),
    "host-stays-away": _NOT_PLAYED,
    "lose-the-majority": _NOT_PLAYED,
    "retire-while-host-is-away": _NOT_PLAYED,
    "scale-while-host-is-away": _NOT_PLAYED,
    "recreate": "played once, on a machine that was too busy for the operator to keep its Lease",
}
"""Acts by name that do not settle yet, and why. Empty is the aim."""

DRAWN: tuple[Act, ...] = tuple(each for each in EVERY if each.name not in HELD_BACK)
"""What rounds are drawn from."""


def named(name: str) -> Act:
    """The act of this name."""
    return next(each for each in EVERY if each.name == name)
