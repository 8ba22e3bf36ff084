"""Documents that are made from the code are equal to it."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs._site.pages.commands import commands_of, pipeline_parser
from docs._site.pages.table import PAGES
from quorum_node.archiver import main as backup_main
from quorum_node.configuration import reference
from quorum_node.configuration.key import Key, Owner, Scope
from quorum_node.configuration.keys import controller, listeners, log, node, quorum
from quorum_node.configuration.keys.table import all_keys, known_names
from quorum_node.quorumctl import main as quorumctl_main
from quorum_node.security.rights import reference as rights
from quorum_node.server.observing.metric_specs import markdown
from quorum_node.server.process import main as node_main
from quorum_operator.config_crd import CONFIG_KEYS, OF_TLS, REFUSED
from quorum_operator.desired.config import properties
from quorum_operator.desired.names import Owner as OwnerOfObjects
from quorum_operator.desired.stateful_set import Member, overrides
from quorum_operator.planner.observed import Identity
from support import break_table

OWNER = OwnerOfObjects("demo", "space", "uid-1")
DOCS = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_reference_pages_match_the_code(name: str) -> None:
    """`make reference-docs` writes it."""
    assert (DOCS / name).read_text() == PAGES[name]()


PARSERS = {
    "quorum-node": node_main._parser,
    "quorumctl": quorumctl_main._parser,
    "quorum-backup": backup_main._parser,
    "quorum-pipeline": pipeline_parser,
}


def without_help(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction) and not action.help:
            yield f"{parser.prog} {'/'.join(action.option_strings) or action.dest}"
    for command in commands_of(parser).values():
        yield from without_help(command)


@pytest.mark.parametrize("program", PARSERS)
def test_every_argument_of_a_command_has_help(program: str) -> None:
    assert not list(without_help(PARSERS[program]()))


@pytest.mark.requirement("K595-28")
def test_list_of_metrics_matches_the_code() -> None:
    """`make metrics-doc` writes it."""
    assert (DOCS / "metrics.md").read_text() == markdown()


def test_configuration_reference_matches_the_code() -> None:
    """`make configuration-doc` writes it."""
    document = (DOCS / "configuration.md").read_text()
    assert reference.written_into(document) == document
    assert sorted(reference.sections_in(document)) == sorted(reference.tables())


def test_different_default_or_missing_section_is_detected() -> None:
    document = (DOCS / "configuration.md").read_text()
    other = document.replace("| 2000 |", "| 2001 |", 1)
    assert other != document
    assert reference.written_into(other) == document
    shorter = document.replace("keys of the section: Timeouts", "")
    assert "Timeouts" not in reference.sections_in(shorter)


def test_every_declared_property_is_in_the_table_once() -> None:
    declared = [
        each.name
        for module in (controller, listeners, log, node, quorum)
        for each in vars(module).values()
        if isinstance(each, Key)
    ]
    table = [key.name for key in all_keys()]
    assert len(set(table)) == len(table)
    assert set(declared) <= set(table)
    assert known_names() >= set(table)


def test_table_marks_the_properties_set_by_the_operator() -> None:
    """It writes just these, and what `spec.config` may hold is never one of them."""
    owned = {key.name for key in all_keys() if key.owner is Owner.OPERATOR}
    founder = Member(1, 1, Identity(1, "cluster", 1, "uuid", 3, formed=False), founder=True)
    written = set(overrides(OWNER, founder)) | set(properties(OWNER, {}, secured=False))
    assert written == owned
    assert owned & set(CONFIG_KEYS) == set()
    assert set(CONFIG_KEYS) <= known_names()
    of_listeners = {key.name for key in all_keys() if key.scope is Scope.LISTENER}
    assert "max.connections" in of_listeners


def test_every_documented_property_is_accepted_by_a_resource_or_rejected_with_a_reason() -> None:
    """`spec.config` of a MetadataQuorum. A new key goes into `CONFIG_KEYS`, or into `REFUSED` with what to do instead."""
    refused = [key for each in REFUSED for key in each.keys]
    keys = [*CONFIG_KEYS, *refused]
    assert len(set(keys)) == len(keys)
    of_tls = {key for key in known_names() if key.startswith(OF_TLS) or f".{OF_TLS}" in key}
    assert set(keys) == known_names() - of_tls
    owned = {key.name for key in all_keys() if key.owner is Owner.OPERATOR}
    assert owned <= set(refused)
    section = (DOCS / "configuration.md").read_text().split("\n## In a MetadataQuorum\n")[1]
    for each in REFUSED:
        keys = ", ".join(f"`{key}`" for key in each.keys)
        assert f"| {keys} | {each.why} |\n" in section
    written_with_tls = set(properties(OWNER, {}, secured=True))
    assert written_with_tls <= set(refused) | of_tls


def test_table_of_rights_matches_the_code() -> None:
    """`make api-permissions-doc` writes it."""
    assert (DOCS / "api-permissions.md").read_text() == rights.markdown()


def test_table_of_defects_matches_the_code() -> None:
    """`make breaks-doc` writes it."""
    assert break_table.written() == break_table.table()


def test_enough_defects_are_listed_and_each_has_its_effect() -> None:
    catchers = break_table.BreakFiles().catchers()
    assert len(catchers) >= 25
    assert [broken.__name__ for broken in catchers if not break_table.words_of(broken)[1]] == []
    names = [broken.__name__ for broken in catchers]
    assert len(set(names)) == len(names)


def test_every_defect_is_detected_by_a_test() -> None:
    """A function that breaks something and stands in no list is never tried."""
    files = break_table.BreakFiles()
    tried = {broken.__name__ for broken in files.catchers()}
    assert files.defined() - tried == set()
