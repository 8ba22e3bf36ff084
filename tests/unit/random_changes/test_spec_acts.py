"""Actions on the spec: their result is a valid spec, and a temporary fault keeps concurrent changes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.resource_facts import unusable_windows, update_wanted
from support.envtest.kube_api import Json
from support.random_changes import spec_acts, update_acts
from support.random_changes.act import Act, Drawn
from support.random_changes.operations import _FIELDS_AT_FIRST, Operations

FIRST: Json = {"replicas": 3, "image": "first", "storage": {"size": "200Mi"}}
ON_A_CLUSTER = {"other-image", "other-affinity", "retire-a-member", "retire-and-take-back"}
ON_A_CLUSTER |= {"recovery-of-nothing"}
"""They look at hosts, images or members first."""
ACTS = [each for each in (*spec_acts.ACTS, *update_acts.ACTS) if each.name not in ON_A_CLUSTER]


class UnreconciledOperations(Operations):
    """Changes a resource that no operator reconciles."""

    def __init__(self) -> None:
        self.quorum = cast(Any, SimpleNamespace(path="q"))
        self.resource: Json = {"spec": dict(FIRST)}
        self.good = {**dict.fromkeys(_FIELDS_AT_FIRST), **FIRST}

    def edit(self, path: str, change: Callable[[Json], None]) -> Json:
        assert path == "q"
        for name, value in self.good.items():
            self.resource["spec"].setdefault(name, value)  # None also deletes a missing field
        change(self.resource)
        spec = {k: v for k, v in self.resource["spec"].items() if v is not None}
        self.resource["spec"] = spec
        return self.resource

    @property
    def spec(self) -> MetadataQuorumSpec:
        return MetadataQuorumSpec.model_validate(self.resource["spec"])


def drawn(act: Act, choice: int = 0) -> Drawn:
    return Drawn(act, 0.0, None, 0, False, choice)


def wanted(operations: UnreconciledOperations) -> Json:
    return {key: value for key, value in operations.good.items() if value is not None}


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
@pytest.mark.parametrize("choice", [0, 1, 2])
def test_action_produces_a_valid_spec(act: Act, choice: int) -> None:
    operations = UnreconciledOperations()
    operations.want(replicas=4)  # no action uses so many
    reported = next(act.do(operations, drawn(act, choice)))
    assert reported
    assert operations.spec.image
    if act.lasts_s is None:
        assert operations.resource["spec"] == wanted(operations)


@pytest.mark.parametrize(
    "act", [each for each in ACTS if each.lasts_s is not None], ids=lambda act: act.name
)
def test_temporary_fault_keeps_concurrent_spec_changes(act: Act) -> None:
    operations = UnreconciledOperations()
    doing = act.do(operations, drawn(act))
    next(doing)
    assert operations.resource["spec"] != FIRST
    meanwhile = {"soakSeconds": 1}
    operations.want(update=meanwhile, storage={"size": "300Mi"})
    next(doing, None)
    assert operations.resource["spec"] == wanted(operations)
    assert operations.resource["spec"]["update"] == meanwhile


def test_later_action_keeps_update_settings_of_an_earlier_one() -> None:
    operations = UnreconciledOperations()
    for act in (update_acts.update_by_a_canary, update_acts.window_that_is_open):
        next(act.do(operations, drawn(act)))
    update = operations.spec.update
    assert update is not None
    assert update.soak_seconds > 0
    assert update.windows
    for each in (update_acts.keep_failed_volumes_for_a_while, spec_acts.other_storage_size):
        next(each.do(operations, drawn(each)))
    assert operations.resource["spec"]["storage"]["keepFailedFor"] == "1s"


@pytest.mark.parametrize("now", [0.0, 1_000_000_000.0, 1_772_150_340.0])
def test_windows_are_open_closed_and_invalid_at_any_time(now: float) -> None:
    def hold(act: Act) -> str | None:
        operations = UnreconciledOperations()
        next(act.do(operations, drawn(act)))
        found = update_wanted(operations.spec, now)
        assert found is not None
        return found.hold

    assert hold(update_acts.window_that_is_open) is None
    assert hold(update_acts.window_that_is_closed) is not None
    assert "can't be used" in str(hold(update_acts.window_that_can_not_be_read))
    assert hold(update_acts.updates_paused) == "spec.update.paused is set"


def test_invalid_window_makes_the_spec_invalid() -> None:
    operations = UnreconciledOperations()
    next(
        update_acts.window_that_can_not_be_read.do(
            operations, drawn(update_acts.window_that_can_not_be_read)
        )
    )
    assert "spec.update.windows" in str(unusable_windows(operations.spec))
