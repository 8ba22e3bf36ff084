"""Rules of ClearElr records in compiled loops, broken one by one: the comparison with a node notices each of them.

The loops run without compilation here, as compiling each broken form would take longer than all comparisons.
"""

import functools
import itertools
from importlib import import_module
from types import ModuleType

import numba
import numpy as np
import pytest
from hypothesis import Phase, given, settings

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import Unsupported
from support.broken_source import broken
from support.delta_checks import CUTS, SHORT
from support.delta_records import node_state
from support.elr_histories import elr_histories

_PACKAGE = "quorum_pipeline.compaction"
_BUCKETS = 2
NO_BREAK = ("log_compaction", "clears += 1", "clears += 1")
BREAKS = (
    ("log_compaction", "clears += 1", "pass"),
    ("log_compaction", "            _add_elr_update(elr_updates, combined, 0, before)\n", "            pass\n"),
    ("log_compaction", "    if not change[ELR_UPDATES]:\n        _add_elr_update(elr_updates, combined, passed, flags)\n", ""),
    ("log_compaction", "        passed += step\n", ""),
    ("log_compaction", "clears - combined.rows[known, CLEARS]", "clears"),
    ("elr_updates", "replaced = (then & _SET) * 3", "replaced = 0"),
    ("elr_updates", "put_uvarint(to, at, elr_updates.rows[row, INTERVAL] - before)", "put_uvarint(to, at, elr_updates.rows[row, INTERVAL])"),
    ("elr_updates", "        if array_count(data, elr) > 0:\n            flags |= ELR_ANY\n", "        flags |= ELR_ANY\n"),
    ("elr_updates", "        known |= ELR_ANY\n", "        pass\n"),
    ("elr_updates", "        known |= LAST_KNOWN_ANY\n", "        pass\n"),
    ("elr_updates", "elif interval >= begin:", "else:"),
    ("elr_updates", "if interval > here:", "if interval >= here:"),
    ("elr_updates", "fields[c.ELR_STATE] = (here + 1) << _FLAG_BITS", "pass"),
    ("elr_updates", "    if not later & ELR_SET:\n", "    if True:\n"),
    ("elr_updates", "    if not later & LAST_KNOWN_SET:\n", "    if True:\n"),
    ("merging", "if clears < fields[c.ELR_UPDATES_UNTIL]:", "if False:"),
    ("merging", "            clears += 1\n", ""),
    ("merging", "data[begin - 1], clears, fields)", "data[begin - 1], 0, fields)"),
    ("offset_runs", "np.sort(np.concatenate([everywhere, each]))", "np.concatenate([everywhere, each])"),
    ("offset_runs", "for each in found[:count]]", "for each in found[:1]] + found[1:count]"),
    ("merging", "    names.rows[name, c.TOPIC] = NONE\n", ""),
    ("merging", "    elif stop == begin + 1:\n", "    else:\n"),
    ("merging", "    if fields[c.ELR] < 0 and fields[c.LAST_KNOWN_ELR] < 0:\n        return False\n", ""),
)  # fmt: skip
"""Module, a text in its source, and its replacement."""
Example = tuple[list[bytes], list[int]]


@functools.cache
def examples() -> list[Example]:
    """The same ones each time."""
    found: list[Example] = []

    @settings(SHORT, max_examples=150, phases=(Phase.generate,), database=None, derandomize=True)
    @given(elr_histories(transactions=False), CUTS)
    def draw(values: list[bytes], cuts: list[int]) -> None:
        found.append((values, cuts))

    draw()
    return found


def about_topics(image: ClusterImage) -> list[md.MetadataMessage]:
    """The records of topics and partitions in a snapshot."""
    kinds = (md.TopicRecord, md.PartitionRecord)
    return [each for each in image.snapshot_messages() if isinstance(each, kinds)]


def merged(loops: ModuleType, values: list[bytes], cuts: list[int]) -> ClusterImage:
    """The topics of a log that is cut into spans, of which two are composed, by the loops of a module `offset_runs`."""
    record_run = import_module(f"{_PACKAGE}.record_run")
    borders = sorted({0, len(values), *(each for each in cuts if each < len(values))})
    spans = []
    for begin, end in itertools.pairwise(borders):
        run = record_run.run_of_values(values[begin:end])
        spans.append(loops.compacted([loops.OffsetRun(run, np.arange(begin, end))]))
    spans[-2:] = [loops.compacted(spans[-2:])]
    image = ClusterImage()
    for each in zip(*(loops.by_bucket(span, _BUCKETS)[0] for span in spans), strict=True):
        image = image.replay_all(record_run.decoded(loops.merged_topics(each).left.run))
    return image


def differs(loops: ModuleType, values: list[bytes], cuts: list[int]) -> bool:
    """Whether loops have another result than a node, or none."""
    try:
        found = merged(loops, values, cuts)
    except Unsupported:
        return True
    return about_topics(found) != about_topics(node_state(values).image)


def is_caught(module: str, line: str, instead: str) -> bool:
    """Whether the defective package differs from a node for some log."""
    with pytest.MonkeyPatch.context() as patch, broken(_PACKAGE, module, line, instead):
        patch.setattr(numba.config, "DISABLE_JIT", 1)
        loops = import_module(f"{_PACKAGE}.offset_runs")
        with np.errstate(all="ignore"):
            return any(differs(loops, *each) for each in examples())


@pytest.mark.long
def test_rules_without_defect_are_not_reported() -> None:
    """Else it would not be the break that is caught."""
    assert not is_caught(*NO_BREAK)


@pytest.mark.long
@pytest.mark.parametrize("each", BREAKS)
def test_every_defective_rule_is_detected(each: tuple[str, str, str]) -> None:
    assert is_caught(*each)
