"""Links between pages lead somewhere, to the heading that they name, and so do paths of pages that code and charts mention.

`make docs` checks the pages of the site when it builds them, with warnings as errors. This test builds nothing. It applies
the rules of the site to `docs/` (no link to a file outside of the site, each page in a table of contents), and covers the
pages outside of `docs/` as well.
"""

import glob
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from support import source_tree as tree

FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
# [text](target), [text](<target>) and [text](target "title"), also as a picture; [name]: target; attributes of HTML.
LINK = re.compile(
    r"""\]\(\s*<?([^)<>\s]+)>?(?:\s+["'][^"'\n]*["'])?\s*\)"""
    r"""|^ {0,3}\[[^\]\n]+\]:\s*<?([^\s>]+)>?|<(?:a|img)\b[^>]*?\b(?:href|src)=["']([^"']+)""",
    re.MULTILINE,
)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
MENTION = re.compile(
    r"(?<![\w./-])(?:docs|examples)/[\w-]+(?:/[\w-]+)*\.(?:md|svg|toml|json|yaml)\b"
)
DOCS = tree.ROOT / "docs"
# Files below docs/ that are not pages of the site: its generators.
NOT_ON_THE_SITE = "_site"
# The site makes anchors of headings down to this level.
LEVEL = int(re.findall(r"myst_heading_anchors = (\d)", (DOCS / "_site/conf.py").read_text())[0])
HEADING = re.compile(rf"^#{{1,{LEVEL}}} +(.+?)\s*#*$", re.MULTILINE)
TEXTS = (".py", ".md", ".yaml", ".yml", ".toml", ".tpl", ".txt", ".json", ".sh", "")
# Tests of the tools for requirements, of links and of commands in pages name pages of their own.
MAKE_PAGES = (
    "tests/unit/requirements",
    "tests/tidy/test_links.py",
    "tests/tidy/test_commands_in_pages.py",
)
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


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Each relative link as it is written, the path that it leads to, and its anchor or an empty text."""
    text = CODE.sub("", FENCE.sub("", page.read_text()))
    for match in LINK.finditer(text):
        target = next(filter(None, match.groups()))
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = unquote(target).partition("#")
        yield target, (page.parent / path).resolve() if path else page, anchor


def dead_links(page: Path) -> Iterator[str]:
    for target, other, anchor in links(page):
        if not other.exists():
            yield f"{page}: no file for the link {target}"
        elif anchor and (other.suffix != ".md" or anchor not in anchors(other)):
            yield f"{page}: no heading for the link {target}"


def links_out_of_the_site(page: Path, docs: Path) -> Iterator[str]:
    """The site has the files below `docs` without its generators, and no page for a folder."""
    for target, other, _ in links(page):
        inside = other.is_relative_to(docs) and not other.is_relative_to(docs / NOT_ON_THE_SITE)
        if not inside or other.is_dir():
            yield f"{page}: the site has no page or file for the link {target}"


def listed_pages(page: Path, docs: Path) -> Iterator[Path]:
    """Pages that the tables of contents of `page` name, as Sphinx finds them: paths without a suffix, or patterns."""
    for block in TOCTREE.findall(page.read_text()):
        entries = [line.strip() for line in block.splitlines() if line.strip()]
        patterns = ":glob:" in entries
        for entry in entries:
            if entry.startswith(":"):
                continue
            name = entry.removeprefix("/")
            folder = docs if entry.startswith("/") else page.parent
            found = list(folder.glob(f"{name}.md" if patterns else glob.escape(f"{name}.md")))
            assert found, f"{page}: no page for the entry {entry} of a table of contents"
            yield from (path.resolve() for path in found)


def unlisted_pages(docs: Path) -> list[str]:
    """Pages below `docs` that no table of contents reaches from the first page."""
    reached, waiting = set[Path](), [docs / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += listed_pages(page, docs)
    pages = {path for path in docs.rglob("*.md") if not path.is_relative_to(docs / NOT_ON_THE_SITE)}
    return [f"{path}: in no table of contents" for path in sorted(pages - reached)]


def dead_mentions(path: Path, root: Path) -> Iterator[str]:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return  # a picture
    for mention in MENTION.findall(text):
        if not (root / mention).exists():
            yield f"{path}: there is no {mention}"


def test_links_of_pages_resolve() -> None:
    assert len(pages()) > 40
    assert [each for page in pages() for each in dead_links(page)] == []


def test_pages_of_the_site_link_only_to_the_site() -> None:
    found = [page for page in pages() if page.is_relative_to(DOCS)]
    assert len(found) > 90
    assert [each for page in found for each in links_out_of_the_site(page, DOCS)] == []


def test_each_page_of_the_site_is_in_a_table_of_contents() -> None:
    assert unlisted_pages(DOCS) == []


@pytest.mark.parametrize("folder", ["tutorial", "how-to", "explanation"])
def test_each_page_of_the_folder_ends_with_links_to_next_pages(folder: str) -> None:
    found = [page for page in sorted((DOCS / folder).glob("*.md")) if page.stem != "README"]
    assert found
    for page in found:
        last = re.split(r"^## ", FENCE.sub("", page.read_text()), flags=re.MULTILINE)[-1]
        assert last.startswith("Next\n"), page
        assert LINK.search(last), page


def test_pages_mentioned_by_other_files_exist() -> None:
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
        ("<other.md>", "no file"),
        ('other.md "with a title"', "no file"),
        ("#too-deep", "no heading"),
    ],
)
def test_dead_link_is_detected(link: str, fault: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A `page`, and more\n\n[x]({link})\n\n##### Too deep\n")
    assert [fault in each for each in dead_links(page)] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "![x](other.svg)",
        "[![x](page.md)](other.md)",
        "[x][y]\n\n[y]: other.md",
        '<a href="other.md">x</a>',
        '<img alt="x" src="other.png">',
        "1. A list\n\n   ```sh\n   x\n   ```\n   [x](other.md)",
    ],
)
def test_dead_link_is_detected_in_each_form(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A `page`, and more\n\n{text}\n")
    assert len(list(dead_links(page))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[x](#a-page-and-more)",
        "[x](page.md)",
        "`[x](other.md)`",
        "```\n[x](other.md)\n```",
        "1. A list\n\n   ```sh\n   [x](other.md)\n   ```",
        "[x](https://example.org/other.md)",
    ],
)
def test_valid_link_is_accepted(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A `page`, and more\n\n{text}\n")
    assert list(dead_links(page)) == []


@pytest.mark.parametrize(
    "link", ["../../examples/x/README.md", "../../examples", "../_site/x.py", "../how-to", "../.."]
)
def test_link_out_of_the_site_is_detected(link: str, tmp_path: Path) -> None:
    """Such a file exists in the repository, so the link is not dead on GitHub."""
    for each in ("docs/how-to/page.md", "docs/_site/x.py", "examples/x/README.md"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    page = tmp_path / "docs/how-to/page.md"
    page.write_text(f"[x]({link}) and [y](page.md)\n")
    assert list(dead_links(page)) == []
    assert len(list(links_out_of_the_site(page, tmp_path / "docs"))) == 1


def test_page_in_no_table_of_contents_is_detected(tmp_path: Path) -> None:
    for each in ("named", "below/README", "below/by-pattern", "below/left", "_site/x"):
        (tmp_path / f"{each}.md").parent.mkdir(exist_ok=True)
        (tmp_path / f"{each}.md").touch()
    (tmp_path / "index.md").write_text(
        "```{toctree}\n:hidden:\n\nnamed\n/below/README\n```\n\n[x](below/left.md)\n"
    )
    (tmp_path / "below/README.md").write_text("```{toctree}\n:glob:\n\nby-*\n```\n")
    assert unlisted_pages(tmp_path) == [f"{tmp_path}/below/left.md: in no table of contents"]


def test_dead_mention_is_detected(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""See docs/gone/page.md."""\n')
    assert len(list(dead_mentions(module, tmp_path))) == 1
    (tmp_path / "docs/gone").mkdir(parents=True)
    (tmp_path / "docs/gone/page.md").touch()
    assert list(dead_mentions(module, tmp_path)) == []
