"""Acts on how updates reach the members, and on how long volumes of failed members are kept."""

from support.envtest.kube_api import Json
from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.operations import Operations

_PASSES = (6.0, 20.0)
_NEVER = {"start": "0 0 30 2 *", "durationMinutes": 1}
"""There is no such day."""
_ALWAYS = {"start": "* * * * *", "durationMinutes": 5}


def _update(operations: Operations, **fields: object) -> Json:
    """What is wanted of updates, with these fields changed."""
    return {**(operations.good["update"] or {}), **fields}


def _other_property(operations: Operations, drawn: Drawn) -> str:
    """For good; what the update is about."""
    value = drawn.one_of(("2100", "2400", "2900"))
    operations.want(
        config={**(operations.good["config"] or {}), "controller.quorum.fetch.timeout.ms": value}
    )
    return f"config: fetch.timeout.ms {value}"


@act()
def update_by_a_canary(operations: Operations, drawn: Drawn) -> Doing:
    """Let one member go first, and change a property."""
    soak_s = 2 + drawn.choice % 5
    operations.want(update=_update(operations, soakSeconds=soak_s, canaryTimeoutSeconds=60))
    yield f"update.soakSeconds: {soak_s}; {_other_property(operations, drawn)}"


@act(lasts_s=_PASSES)
def canary_that_fails(operations: Operations, drawn: Drawn) -> Doing:
    """Update by a canary to what does not start, and take it back."""
    update = _update(operations, soakSeconds=5, canaryTimeoutSeconds=3)
    operations.wish(update=update, config={"controller.quorum.fetch.timeout.ms": "soon"})
    yield "update.soakSeconds: 5; config: fetch.timeout.ms soon"
    operations.restore("update", "config")


@act(lasts_s=_PASSES)
def canary_of_an_image_that_is_missing(operations: Operations, drawn: Drawn) -> Doing:
    """Update by a canary to an image that does not exist, try it again, and take it back."""
    update = _update(operations, soakSeconds=5, canaryTimeoutSeconds=3, attempt=drawn.choice % 100)
    operations.wish(update=update, image="127.0.0.1:1/no-such:1")
    yield f"update.attempt: {update['attempt']}; image: no such"
    operations.restore("update", "image")


@act(lasts_s=_PASSES)
def updates_paused(operations: Operations, drawn: Drawn) -> Doing:
    """Hold updates back while a property is changed, and let them go on."""
    operations.wish(update=_update(operations, paused=True))
    yield f"update.paused: true; {_other_property(operations, drawn)}"
    operations.restore("update")


@act(lasts_s=_PASSES)
def window_that_is_closed(operations: Operations, drawn: Drawn) -> Doing:
    """Name a maintenance window that never opens while a property is changed, and take it out."""
    operations.wish(update=_update(operations, windows=[_NEVER]))
    yield f"update.windows: never; {_other_property(operations, drawn)}"
    operations.restore("update")


@act()
def window_that_is_open(operations: Operations, drawn: Drawn) -> Doing:
    """Name a maintenance window that is always open, and change a property."""
    operations.want(update=_update(operations, windows=[_ALWAYS]))
    yield f"update.windows: always; {_other_property(operations, drawn)}"


@act(lasts_s=_PASSES)
def window_that_can_not_be_read(operations: Operations, drawn: Drawn) -> Doing:
    """Name a maintenance window in a time zone that there is not, and correct it."""
    operations.wish(update=_update(operations, windows=[{**_ALWAYS, "timeZone": "No/Such"}]))
    yield "update.windows: no such time zone"
    operations.restore("update")


@act()
def updates_as_they_come(operations: Operations, drawn: Drawn) -> Doing:
    """Say nothing of updates any more."""
    operations.want(update=None)
    yield "update: left out"


@act()
def keep_failed_volumes_for_a_while(operations: Operations, drawn: Drawn) -> Doing:
    """Say for how long volumes of failed members are kept."""
    kept = drawn.one_of(("1s", "20s", "1h"))
    operations.want(storage={**operations.good["storage"], "keepFailedFor": kept})
    yield f"storage.keepFailedFor: {kept}"


@act(lasts_s=_PASSES)
def let_failed_volumes_go_at_once(operations: Operations, drawn: Drawn) -> Doing:
    """Let volumes of failed members go after a second, for a while."""
    operations.wish(storage={**operations.good["storage"], "keepFailedFor": "1s"})
    yield "storage.keepFailedFor: 1s, for a while"
    operations.restore("storage")


ACTS: tuple[Act, ...] = (
    update_by_a_canary,
    canary_that_fails,
    canary_of_an_image_that_is_missing,
    updates_paused,
    window_that_is_closed,
    window_that_is_open,
    window_that_can_not_be_read,
    updates_as_they_come,
    keep_failed_volumes_for_a_while,
    let_failed_volumes_go_at_once,
)
