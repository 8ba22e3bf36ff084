"""Rules of the deltas, broken one by one: the comparison with a node notices each of them."""

from importlib import import_module
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support import delta_checks
from support.broken_source import broken
from support.delta_records import LOGS

_PACKAGE = "quorum_pipeline.deltas"


class Break(NamedTuple):
    """What stands in the source of a module, and what stands there instead."""

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
    ("elr=then.elr if then.told & ELR else first.elr", "elr=then.elr or first.elr"),
    ("told=first.told | then.told", "told=then.told"),
    ("        return 1, first.cleared_if\n", "        return 0, first.cleared_if\n"),
    ("first.cleared_if | (asked & ~first.told)", "first.cleared_if | asked"),
    ("first.cleared_if | (asked & ~first.told)", "asked & ~first.told"),
    ("wrong.append(then.replica_count.violated_at(len(first.replicas)))", "pass"),
    ("wrong.append(then.directory_count.violated_at(len(first.directories)))", "pass"),
    ("replica_count = joined(replica_count, then.replica_count)", "pass"),
    ("directory_count = joined(directory_count, then.directory_count)", "pass"),
    ("        wrong.append(change.replica_count.violated_at(len(partition.replicas)))", "        pass"),
    ("        each != MIGRATING for each in partition.directories", "        True for each in partition.directories"),
    ("partition_epoch=partition.partition_epoch + change.changes + cleared", "partition_epoch=partition.partition_epoch + change.changes"),
    ("directories if len(directories) == count else (MIGRATING,) * count", "directories"),
    ("wrong = offset if len(directories) != len(replicas) else None", "wrong = None"),
)  # fmt: skip
DELTAS = (
    ("            self._keep_asked(number, partition_id, op)\n", "            pass\n"),
    ("        self._keep_asked(number, partition_id, ops.get(partition_id))\n", ""),
    ("            self._ask(number, partition_id, asked)\n", "            pass\n"),
    ("            self.asked[number, partition_id] = asked\n\n    def _keep", "            pass\n\n    def _keep"),
    ("            self.fail(applied(asked, before)[1], _WRONG_COUNT)\n", "            pass\n"),
    ("        self.asked = {key: change_told_at(each, offset) for key, each in self.asked.items()}\n", ""),
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
    ("        for number in self.partitions if other.all_cleared else other.cleared:", "        for number in self.partitions if other.all_cleared else ():"),
    ("        self.all_cleared = True\n        self.cleared.clear()\n\n", "        self.cleared.clear()\n\n"),
    ("            before = CLEARED\n", "            ops[partition_id] = change\n            return\n"),
    ("            if partition_id in but:\n                continue\n", ""),
    ("return number if live is not None and live.offset == offset else None", "return None if live is None else number"),
    ("return kind != TOPIC or offset > removed_names", "return True or offset > removed_names"),
    ("return kind != TOPIC or offset > removed_names", "return offset > removed_names"),
    ("        self.needs_partitions = dict.fromkeys(self.needs_partitions, offset)", "        pass"),
    ("                    ops[partition_id] = change_told_at(op, offset)", "                    pass"),
    ("            self.wrong = Contradiction(offset, self.wrong.reason)", "            pass"),
    ("self.puts.update(other.puts)", "self.puts = other.puts | self.puts"),
    ("self.configs.update(other.configs)", "self.configs = other.configs | self.configs"),
    ("        self.left_out |= other.left_out\n", ""),
    ("        self.named.update(other.named)\n", ""),
    ("            self.cleared |= {each for each in other.cleared if each not in self.topics}", "            pass"),
)  # fmt: skip
OTHERS = (
    Break("lengths", "earlier._replace(other_at=later.violated_at(earlier.first))", "earlier"),
    Break("lengths", "return self.at if count != self.first else self.other_at", "return self.at if count != self.first else None"),
    Break("broker_delta", "registration.broker_epoch != epoch", "False"),
    Break("broker_delta", "{**self.changes.get(epoch, {}), **fields}", "fields"),
    Break("broker_delta", "{**self.changes, epoch: known}", "{epoch: known}"),
    Break("broker_delta", "        if other.told:\n            return other\n", ""),
    Break("broker_delta", "if record.cordoned_log_dirs is not None:", "if record.cordoned_log_dirs:"),
    Break("chain", "number is not None and not gone", "number is not None"),
    Break("chain", "        self.names.append(name)\n        self.deltas.append(Delta())", "        pass"),
    Break("chain", "range(len(self.deltas) - 1, -1, -1)", "range(len(self.deltas))"),
    Break("chain", "if record.tagged_fields and kind not in TAGGED_FIELDS_KEPT:", "if False:"),
    Break("chain", "lambda each: not each.remove", "_yes"),
    Break("span", "            self.body.then(self.tail.told_at(offset))", "            pass"),
    Break("span", "            self.body.then(self.tail.told_at(offset))", "            self.body.then(self.tail)"),
    Break("span", "self.tail.then(other.head).told_at(other.boundary.offset)", "self.tail.then(other.head)"),
    Break("span", "            elif other.boundary.ends:", "            else:"),
    Break("span", "            if self.tail is None:\n                self.body.then(other.head)\n            elif", "            if"),
    Break("span", "        self.tail = other.tail", "        self.tail = self.tail or other.tail"),
    Break("span", "        if self.malformed is not None or self.stopped:\n            return self\n", ""),
    Break("span", "self.tail = Chain() if kind is md.BeginTransactionRecord else None", "self.tail = (self.tail or Chain()) if kind is md.BeginTransactionRecord else None"),
)  # fmt: skip
BREAKS = (
    *(Break("partition_change", *each) for each in CHANGES),
    *(Break("delta", *each) for each in DELTAS),
    *OTHERS,
)
SHORT = (BREAKS[2],)


def is_caught(each: Break, examples: int = 5_000) -> bool:
    """Whether some log tells the package as it is from a node."""

    @settings(delta_checks.SHORT, max_examples=examples, phases=(Phase.generate,), database=None, derandomize=True, report_multiple_bugs=False)  # fmt: skip
    @given(LOGS, delta_checks.CUTS, st.integers(0, 99))
    def compare(values: list[bytes], cuts: list[int], seed: int) -> None:
        delta_checks.assert_as_a_node(values, delta_checks.merged(values, cuts, seed))

    with (
        broken(_PACKAGE, each.module, each.line, each.instead),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(delta_checks, "Span", import_module(f"{_PACKAGE}.span").Span)
        patch.setattr(delta_checks, "image_of", import_module(f"{_PACKAGE}.rows").image_of)
        try:
            compare()
        except (AssertionError, ValueError, KeyError):
            return True
    return False


@pytest.mark.parametrize("each", SHORT)
@pytest.mark.requirement("SP-03")
def test_a_broken_rule_is_caught(each: Break) -> None:
    assert is_caught(each)


def test_rules_that_are_not_broken_are_not_caught() -> None:
    """Else it would not be the break that is caught."""
    assert not is_caught(Break("span", "class Boundary:", "class Boundary:"), examples=40)


@pytest.mark.long
def test_rules_that_are_not_broken_are_not_caught_by_many_examples() -> None:
    assert not is_caught(Break("span", "class Boundary:", "class Boundary:"))


@pytest.mark.long
@pytest.mark.parametrize("each", BREAKS)
@pytest.mark.requirement("SP-03")
def test_every_broken_rule_is_caught(each: Break) -> None:
    assert is_caught(each)
