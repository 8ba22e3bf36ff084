"""Documents that are made from the code are equal to it."""

from pathlib import Path

from quorum_node.server.metric_specs import markdown

DOCS = Path(__file__).parents[2] / "docs"


def test_the_list_of_metrics_is_the_code() -> None:
    """`make metrics-doc` writes it."""
    assert (DOCS / "metrics.md").read_text() == markdown()
