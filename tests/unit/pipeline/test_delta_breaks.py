"""Rules of the deltas, broken one by one: the comparison with a node notices each of them."""

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from quorum_node.image.resource_types import BROKER
from quorum_node.records import metadata as md
from support import delta_checks
from support.broken_source import broken
from support.delta_records import LOGS

_PACKAGE = "quorum_pipeline.deltas"
FEW, MANY = 60, 4_000
"""Examples."""


class Break(NamedTuple):
    """A text in the source of a module, and its replacement."""

    module: str
    line: str
    instead: str


CHANGES = (
    ("leaders=first.leaders + then.leaders", "leaders=then.leaders"),
    ("changes=first.changes + then.changes + counted", "changes=first.changes + then.changes"),
    ("changes=first.changes + then.changes + counted", "changes=then.changes + counted"),
    ("recovery=first.recovery if then.recovery == RECOVERY_UNCHANGED else then.recovery", "recovery=then.recovery"),
    ("leader=first.leader if then.leader == LEADER_UNCHANGED else then.leader", "leader=then.leader"),
    ("isr=first.isr if then.isr is None else then.isr", "isr=then.isr if first.isr is None else first.isr"),
    ("adding=first.adding if then.adding is None else then.adding", "adding=then.adding"),
    ("directories=first.directories if then.directories is None else then.directories", "directories=then.directories"),
    ("elr=then.elr if then.sets & ELR else first.elr", "elr=then.elr or first.elr"),
    ("sets=first.sets | then.sets", "sets=then.sets"),
    ("        return 1, first.cleared_if\n", "        return 0, first.cleared_if\n"),
    ("first.cleared_if | (conditions & ~first.sets)", "first.cleared_if | conditions"),
    ("        wrong.append(change.replica_count.violated_at(len(partition.replicas)))", "        pass"),
    ("        each != MIGRATING for each in partition.directories", "        True for each in partition.directories"),
    ("partition_epoch=partition.partition_epoch + change.changes + cleared", "partition_epoch=partition.partition_epoch + change.changes"),
)  # fmt: skip
DELTAS = (
    ("        self.topics[number] = TopicDelta(None if before is None else before.removed_at, live)\n        self._drop_partitions(number)", "        self.topics[number] = TopicDelta(None if before is None else before.removed_at, live)"),
    ("TopicDelta(None if before is None else before.removed_at, live)", "TopicDelta(offset, live)"),
    ("            self._remove_name(before.live.record.name, offset)\n", ""),
    ("                self._remove_name(before.live.record.name, topic.removed_at)", "                pass"),
    ("if before.live is not None and topic.removed_at is not None:", "if before.live is not None:\n                topic = TopicDelta(topic.removed_at or 10**6, topic.live)"),
    ("            self.needs_topics.setdefault(number, offset)\n        elif topic.live is None:\n            self.fail(offset, _no_topic(number))\n            return", "            self.needs_topics[number] = offset\n        elif topic.live is None:\n            self.fail(offset, _no_topic(number))\n            return"),
    ("            self.fail(offset, _no_topic(number))\n            return\n", "            return\n"),
    ("self.needs_partitions.setdefault((number, partition_id), offset)", "self.needs_partitions[number, partition_id] = offset"),
    ("            self.fail(offset, _no_partition(number, partition_id))\n            return\n", "            return\n"),
    ("                self.fail(offset, _no_partition(number, partition_id))\n            else:", "                pass\n            else:"),
    ("                self.needs_partitions.setdefault(key, offset)", "                self.needs_partitions[key] = offset"),
    ("        for number in self.partitions if other.all_cleared else other.cleared:", "        for number in other.cleared:"),
    ("        self.all_cleared = True\n        self.cleared.clear()\n\n", "        self.cleared.clear()\n\n"),
    ("            before = CLEARED\n", "            ops[partition_id] = change\n            return\n"),
    ("            if partition_id in but:\n                continue\n", ""),
    ("return number if live is not None and live.offset == offset else None", "return None if live is None else number"),
    ("return kind != TOPIC or offset > removed_names", "return True or offset > removed_names"),
    ("return kind != TOPIC or offset > removed_names", "return offset > removed_names"),
    ("self.puts.update(other.puts)", "self.puts = other.puts | self.puts"),
    ("self.configs.update(other.configs)", "self.configs = other.configs | self.configs"),
    ("        self.left_out |= other.left_out\n", ""),
    ("        self.named.update(other.named)\n", ""),
)  # fmt: skip
OTHERS = (
    Break("broker_delta", "registration.broker_epoch != epoch", "False"),
    Break("broker_delta", "        if other.sets_registration:\n            return other\n", ""),
    Break("chain", "        self.names.append(name)\n        self.deltas.append(Delta())", "        pass"),
    Break("chain", "if record.tagged_fields and kind not in TAGGED_FIELDS_KEPT:", "if False:"),
    Break("span", "            self.body.then(self.tail.reported_at(offset))", "            pass"),
    Break("span", "            elif other.boundary.ends:", "            else:"),
    Break("span", "            if self.tail is None:\n                self.body.then(other.head)\n            elif", "            if"),
)  # fmt: skip
BREAKS = (
    *(Break("partition_change", *each) for each in CHANGES),
    *(Break("delta", *each) for each in DELTAS),
    *OTHERS,
)


Example = tuple[list[bytes], list[int], int]


@functools.cache
def examples(count: int) -> list[Example]:
    """The same ones each time: generating them takes longer than testing them."""
    found: list[Example] = []

    @settings(delta_checks.SHORT, max_examples=count, phases=(Phase.generate,), database=None, derandomize=True)  # fmt: skip
    @given(LOGS, delta_checks.CUTS, st.integers(0, 99))
    def draw(values: list[bytes], cuts: list[int], seed: int) -> None:
        found.append((values, cuts, seed))

    draw()
    return found


def is_caught(each: Break, count: int = MANY, drawn: Sequence[Example] = ()) -> bool:
    """Whether the defective package differs from a node for some log."""
    drawn = drawn or examples(count)
    with (
        broken(_PACKAGE, each.module, each.line, each.instead),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(delta_checks, "Span", import_module(f"{_PACKAGE}.span").Span)
        patch.setattr(delta_checks, "image_of", import_module(f"{_PACKAGE}.rows").image_of)
        try:
            for values, cuts, seed in drawn:
                delta_checks.assert_as_a_node(values, delta_checks.merged(values, cuts, seed))
        except (AssertionError, AttributeError, ValueError, KeyError):
            return True
    return False


@pytest.mark.requirement("SP-03")
def test_defective_rule_is_detected() -> None:
    """By one example that is always the same: two values of one config in two spans."""
    values = [
        md.encode_metadata(
            md.ConfigRecord(resource_type=BROKER, resource_name="1", name="a", value=value)
        )
        for value in ("first", "last")
    ]
    line, instead = "self.configs.update(other.configs)", "pass"
    drawn = [(values, [1], 1)]
    assert is_caught(Break("delta", line, instead), drawn=drawn)
    assert not is_caught(Break("delta", line, line), drawn=drawn)


def test_rules_without_defect_are_not_reported() -> None:
    """Else it would not be the break that is caught."""
    assert not is_caught(Break("span", "class Boundary:", "class Boundary:"), FEW)


@pytest.mark.long
def test_rules_without_defect_are_not_reported_for_many_examples() -> None:
    assert not is_caught(Break("span", "class Boundary:", "class Boundary:"))


@pytest.mark.long
@pytest.mark.parametrize("each", BREAKS)
@pytest.mark.requirement("SP-03")
def test_every_defective_rule_is_detected(each: Break) -> None:
    assert is_caught(each)
