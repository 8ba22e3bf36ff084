"""Commands in the pages exist: make targets, commands and options of our programs, files of the repository.

Owns reading the shell blocks of tutorials, guides and READMEs. Nothing is run.
"""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs._site.pages.commands import commands_of, pipeline_parser
from quorum_node.quorumctl import main as quorumctl_main
from quorum_node.server.process import main as node_main
from quorum_operator.plugin import main as plugin_main
from support import source_tree as tree

PROGRAMS = {
    "quorumctl": quorumctl_main._parser(),
    "quorum-node": node_main._parser(),
    "quorum-pipeline": pipeline_parser(),
    "kubectl-quorum": plugin_main._parser(),
}
BLOCK = re.compile(r"^( *)```(?:sh|console|shell|bash)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(
    r"`((?:make|quorumctl|quorum-pipeline|quorum-node|kubectl quorum) [a-z][^`\n]*)`"
)
HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?[^\n]*\n.*?^\s*\1$", re.MULTILINE | re.DOTALL)
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (tree.ROOT / "Makefile").read_text(), re.MULTILINE))
OF_THE_REPOSITORY = re.compile(r"(?:examples|helm|manifests|tests|crds|bench)/[\w./-]+")
SEPARATORS = re.compile(r"\|\||&&|[|;&()\n]")
# Written by `make` from docstrings and results, or lists of what was: no page that tells a user what to type.
GENERATED = ("docs/evidence/", "docs/reference/kafka-apis.md", "CHANGELOG.md")


def pages() -> list[Path]:
    return [
        path
        for path in sorted(tree.files(".md"))
        if not path.relative_to(tree.ROOT).as_posix().startswith(GENERATED)
    ]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each simple command of the page's shell blocks, and of what it names in a sentence."""
    found = [HERE_DOCUMENT.sub("", block) for _, block in BLOCK.findall(text)]
    for block in (*found, *INLINE.findall(text)):
        joined = re.sub(r"\\\n\s*", " ", block)
        plain = re.sub(r"(?m)(^|\s)#.*$", "", joined).replace("$(", "\n")
        for part in SEPARATORS.split(re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", plain)):
            words = shlex.split(part.replace("`", ""), posix=False)
            if words:
                yield words


def faults(words: list[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        if OF_THE_REPOSITORY.fullmatch(word) and not (tree.ROOT / word).exists():
            yield f"no file {word}"
        program = word.rsplit("/", 1)[-1]
        after = words[at + 1 :]
        if program == "kubectl" and after[:1] == ["quorum"]:
            program, after = "kubectl-quorum", after[1:]
        if program in PROGRAMS:
            yield from _unknown(program, PROGRAMS[program], after)
            return
    if words[0] == "make":
        for word in words[1:]:
            if re.fullmatch(r"[a-z][a-z0-9-]*", word) and word not in TARGETS:
                yield f"no target {word}"


def _unknown(program: str, parser: argparse.ArgumentParser, words: list[str]) -> Iterator[str]:
    options = _options(parser)
    known, skip = commands_of(parser), False
    for word in words:
        if skip or word.startswith((">", "<")):
            skip = word in (">", "<", ">>")
        elif word.startswith("-") and word != "-":
            name = word.split("=")[0].strip("[]")
            if name not in options:
                yield f"{program} has no option {name}"
                return
            skip = options[name] and "=" not in word
        elif known and re.fullmatch(r"[a-z][a-z-]*", word):
            if word not in known:
                yield f"{program} has no command {word}"
                return
            options |= _options(known[word])
            known = commands_of(known[word])


def _options(parser: argparse.ArgumentParser) -> dict[str, bool]:
    """Each option, and whether a value follows."""
    return {name: action.nargs != 0 for action in parser._actions for name in action.option_strings}


def test_commands_in_the_pages_exist() -> None:
    found = [
        f"{page.relative_to(tree.ROOT)}: {fault}: {' '.join(words)}"
        for page in pages()
        for words in commands(page.read_text())
        for fault in faults(words)
    ]
    assert found == []


def test_enough_commands_are_read() -> None:
    """Else a change of the form of blocks would leave this test with nothing to do."""
    read = [words for page in pages() for words in commands(page.read_text())]
    assert len([words for words in read if words[0] == "make"]) >= 20
    assert len([words for words in read if "quorumctl" in words]) >= 10
    assert len([words for words in read if words[0] == "quorum-pipeline"]) >= 8


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("make dmeo", "no target dmeo"),
        ("quorumctl descibe status", "no command descibe"),
        ("quorumctl describe stauts", "no command stauts"),
        ("kubectl exec demo-1-0-0 -- quorumctl --tokn-file x put a b", "no option --tokn-file"),
        ("kubectl quorum stats demo", "no command stats"),
        ("quorum-pipeline state --log data --show-tables x", "no option --show-tables"),
        ("kubectl apply -f examples/none.yaml", "no file examples/none.yaml"),
        ("x=$(quorumctl get-all)", "no command get-all"),
    ],
)
def test_invalid_command_is_detected(command: str, fault: str) -> None:
    text = f"```sh\nls\n{command}   # a remark\n```\n"
    assert [fault in each for words in commands(text) for each in faults(words)] == [True]


@pytest.mark.parametrize(
    "command",
    [
        "make demo ARGS=--x",
        "quorumctl --admin http://x:1 describe --unconfirmed status",
        "kubectl quorum logs demo --tail 5 -f",
        "cat > f <<'END'\nmake nothing\nEND",
        "quorum-pipeline plan --log data --output plan.json",
    ],
)
def test_valid_command_is_accepted(command: str) -> None:
    text = f"```sh\n{command}\n```\n"
    assert [each for words in commands(text) for each in faults(words)] == []
