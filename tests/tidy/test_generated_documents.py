"""Documents that are made from the code are equal to it."""

from pathlib import Path

import pytest

from quorum_node.server.metric_specs import markdown
from support import break_table

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.requirement("K595-28")
def test_the_list_of_metrics_is_the_code() -> None:
    """`make metrics-doc` writes it."""
    assert (DOCS / "metrics.md").read_text() == markdown()


def test_the_table_of_breaks_is_the_code() -> None:
    """`make breaks-doc` writes it."""
    assert break_table.written() == break_table.table()


def test_there_are_enough_breaks_and_each_says_what_it_would_do() -> None:
    catchers = break_table.BreakFiles().catchers()
    assert len(catchers) >= 25
    assert [broken.__name__ for broken in catchers if not break_table.words_of(broken)[1]] == []
    names = [broken.__name__ for broken in catchers]
    assert len(set(names)) == len(names)


def test_every_break_is_caught_by_something() -> None:
    """A function that breaks something and stands in no list is never tried."""
    files = break_table.BreakFiles()
    tried = {broken.__name__ for broken in files.catchers()}
    assert files.defined() - tried == set()
