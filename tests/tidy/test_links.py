"""Links between pages lead somewhere, to the heading that they name, and so do paths of pages that code and charts mention.

`make docs` checks the same for the pages of the site when it builds them. This test builds nothing, and covers the pages
outside of `docs/` as well.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from support import source_tree as tree

FENCE = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.MULTILINE)
MENTION = re.compile(r"(?<![\w./-])docs/[\w-]+(?:/[\w-]+)*\.(?:md|svg|toml|json)\b")
TEXTS = (".py", ".md", ".yaml", ".yml", ".toml", ".tpl", ".txt", ".json", ".sh", "")
# Tests of the tools for requirements and of links make pages of their own.
MAKE_PAGES = ("tests/unit/requirements", "tests/tidy/test_links.py")
RESULTS = "docs/evidence/requirements-results.json"


def pages() -> list[Path]:
    return sorted(tree.files(".md"))


def anchors(page: Path) -> set[str]:
    """As GitHub and the site make them: words in small letters, joined by hyphens, numbered when they come again."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        name, number = slug, 0
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found


def dead_links(page: Path) -> Iterator[str]:
    text = CODE.sub("", FENCE.sub("", page.read_text()))
    for target in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = unquote(target).partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists():
            yield f"{page}: no file for the link {target}"
        elif anchor and (other.suffix != ".md" or anchor not in anchors(other)):
            yield f"{page}: no heading for the link {target}"


def dead_mentions(path: Path, root: Path) -> Iterator[str]:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return  # a picture
    for mention in MENTION.findall(text):
        if not (root / mention).exists():
            yield f"{path}: there is no {mention}"


def test_links_of_pages_lead_somewhere() -> None:
    assert len(pages()) > 40
    assert [each for page in pages() for each in dead_links(page)] == []


def test_paths_of_pages_that_other_files_mention_exist() -> None:
    """A page that moved is mentioned in messages, docstrings, charts and resource definitions."""
    paths = [
        path
        for path in tree.files()
        if path.suffix in TEXTS
        and not path.relative_to(tree.ROOT).as_posix().startswith((*MAKE_PAGES, RESULTS))
    ]
    assert len(paths) > 500
    assert [each for path in paths for each in dead_mentions(path, tree.ROOT)] == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("other.md", "no file"),
        ("page.md#no-such-heading", "no heading"),
        ("#no-such-heading", "no heading"),
        ("../page.md", "no file"),
    ],
)
def test_a_dead_link_would_be_found(link: str, fault: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A `page`, and more\n\n[x]({link})\n")
    assert [fault in each for each in dead_links(page)] == [True]


@pytest.mark.parametrize(
    "text", ["[x](#a-page-and-more)", "[x](page.md)", "`[x](other.md)`", "```\n[x](other.md)\n```"]
)
def test_a_link_that_leads_somewhere_is_left_alone(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A `page`, and more\n\n{text}\n")
    assert list(dead_links(page)) == []


def test_a_dead_mention_would_be_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""See docs/gone/page.md."""\n')
    assert len(list(dead_mentions(module, tmp_path))) == 1
    (tmp_path / "docs/gone").mkdir(parents=True)
    (tmp_path / "docs/gone/page.md").touch()
    assert list(dead_mentions(module, tmp_path)) == []
