"""Commands and their options, from the argument parsers of the programs.

argparse has no public way to its options and commands: this is the one module that reads them where it keeps them.
"""

import argparse
from collections.abc import Iterator, Set
from importlib import import_module

from docs._site.pages.markdown import head, page, table
from quorum_node.archiver import main as backup_main
from quorum_node.quorumctl import main as quorumctl_main
from quorum_node.server.process import main as node_main
from quorum_operator.plugin import main as plugin_main
from quorum_pipeline import __main__ as pipeline_main


def quorum_node() -> str:
    """docs/reference/quorum-node.md."""
    parser = node_main._parser()
    lines = head("quorum-node", "its argument parser", _sentence(parser.description))
    lines += [*_usage(parser), *_options(parser)]
    lines += [
        "[Configuration](configuration.md) lists the keys, [exit codes](exit-codes.md) how it ends.",
        "",
    ]
    return page(lines)


def quorumctl() -> str:
    """docs/reference/quorumctl.md."""
    return _program(quorumctl_main._parser())


def quorum_backup() -> str:
    """docs/reference/quorum-backup.md."""
    return _program(backup_main._parser())


def quorum_pipeline() -> str:
    """docs/reference/quorum-pipeline.md."""
    return _program(pipeline_parser())


def pipeline_parser() -> argparse.ArgumentParser:
    """With the options of all commands. A run makes those of one command alone, to load less."""
    parser = argparse.ArgumentParser(
        prog="quorum-pipeline", description="The history of a metadata quorum as tables."
    )
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, text in pipeline_main._COMMANDS.items():
        module = import_module(f"quorum_pipeline.commands.{name}")
        module.add_arguments(commands.add_parser(name, help=text, description=text))
    return parser


def kubectl_quorum() -> str:
    """docs/reference/kubectl-quorum.md: its help is one page for all commands."""
    lines = head(
        "kubectl quorum",
        "its help",
        "[How to look at a quorum from a terminal](../how-to/kubectl-plugin.md) shows it at work.",
    )
    return page([*lines, "```text", plugin_main.HELP.rstrip(), "```"])


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, by name."""
    return {
        name: each
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, each in action.choices.items()
    }


def _program(parser: argparse.ArgumentParser) -> str:
    lines = head(parser.prog, "its argument parser", _sentence(parser.description))
    texts = _texts(parser)
    rows = [(f"[{name}](#{name})", texts[name]) for name in commands_of(parser)]
    lines += table(("command", "what it does"), rows)
    own = list(_options(parser))
    if own:
        lines += ["Options of every command:", "", *own]
    shared = {tuple(each.option_strings) for each in _arguments(parser)}
    for name, command in commands_of(parser).items():
        lines += _command(name, texts[name], command, shared)
    return page(lines)


def _command(
    name: str,
    text: str,
    parser: argparse.ArgumentParser,
    shared: Set[tuple[str, ...]],
    level: str = "##",
) -> Iterator[str]:
    yield f"{level} {name}"
    yield ""
    yield _sentence(text)
    yield ""
    yield from _usage(parser)
    yield from _options(parser, shared)
    texts = _texts(parser)
    for view, each in commands_of(parser).items():
        yield from _command(f"{name} {view}", texts[view], each, shared, f"{level}#")


def _texts(parser: argparse.ArgumentParser) -> dict[str, str]:
    return {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }


def _usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Positional arguments and required options alone: the table has the rest."""
    words = [parser.prog]
    words += [
        f"{each.option_strings[-1]} {_value(each)}"
        for each in _arguments(parser)
        if each.option_strings and each.required
    ]
    if any(each.option_strings and not each.required for each in _arguments(parser)):
        words.append("[options]")
    for each in _arguments(parser):
        if not each.option_strings:
            value = _value(each)
            words.append(
                {"?": f"[{value}]", "*": f"[{value} ...]", "+": f"{value} [...]"}.get(
                    str(each.nargs), value
                )
            )
    yield from ("```text", " ".join(words), "```", "")


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for each in parser._actions:
        if not isinstance(each, argparse._SubParsersAction | argparse._HelpAction):
            yield each


def _options(
    parser: argparse.ArgumentParser,
    besides: Set[tuple[str, ...]] = frozenset(),
) -> Iterator[str]:
    rows = [
        (_names(each), _default(each), _help(each))
        for each in _arguments(parser)
        if tuple(each.option_strings) not in besides or not each.option_strings
    ]
    if rows:
        yield from table(("argument", "default", "meaning"), rows)


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_value(action)}`"
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{name}{value}`" for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    if action.choices:
        return "|".join(map(str, action.choices))
    return action.dest.upper() if action.option_strings else action.dest


def _default(action: argparse.Action) -> str:
    value = action.default
    if value in (None, False, [], argparse.SUPPRESS) or action.nargs == 0:
        return ""
    return f"`{value}`"


def _help(action: argparse.Action) -> str:
    text = action.help or ""
    return text % {**vars(action), "prog": ""} if "%" in text else text


def _sentence(text: str | None) -> str:
    text = (text or "").strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
