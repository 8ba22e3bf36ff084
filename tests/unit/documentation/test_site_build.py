"""What a page of the site may not load, and what the generated tables look like."""

from pathlib import Path

import pytest

from docs._site.build import foreign_assets
from docs._site.pages.markdown import table


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<img alt='x' src='//pictures.example/x.png'>",
        '<link rel="stylesheet" href="http://fonts.example/css">',
        "<style>@import url(https://fonts.example/css);</style>",
        "<style>a { background: url('https://x.example/y.png') }</style>",
    ],
)
def test_asset_of_another_host_is_detected(text: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<html>{text}</html>")
    assert len(foreign_assets(tmp_path)) == 1


@pytest.mark.parametrize(
    "text", ['<a href="https://kafka.apache.org">Kafka</a>', '<script src="../x.js"></script>']
)
def test_links_and_own_assets_are_unchanged(text: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<html>{text}</html>")
    assert foreign_assets(tmp_path) == []


def test_escaped_bar_in_a_cell_does_not_end_it() -> None:
    assert table(("a",), [("x | y\nz",)]) == ["| a |", "|---|", "| x \\| y z |", ""]
