"""`kubectl-quorum`: arguments, help, exit codes."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from quorum_operator.plugin import commands
from quorum_operator.plugin.commands import Call
from quorum_operator.plugin.kubectl import CommandFailed, Kubectl, program
from quorum_operator.plugin.layout import printable

_INTERRUPTED = 130
_MOST_PAUSE_S = 86_400
EXIT_CODES = {
    0: "done",
    1: "refused or failed; the reason is on stderr. `logs` ends with kubectl's own code",
    2: "wrong usage",
    _INTERRUPTED: "ended by Ctrl-C; a change that was requested may have been made. `watch` and `logs` end with 0",
}
PROGRAM = "kubectl quorum"
HELP = """\
kubectl quorum: inspect and change a MetadataQuorum

usage: kubectl quorum COMMAND NAME [options]

  status NAME            phase, leader, tolerance, plan, members, events
  watch NAME             the same, refreshed; in a pipe one line per change
      --interval SECONDS     between two reads (default 2)
      --count N              stop after N reads
  members NAME           pod, claim, host and state of each member
  logs NAME              log of all members
      --id ID                only of this member
      -f, --follow           follow the log
      --tail N               last N lines of each (default 100)
      --previous             of the container before its last restart
  replace NAME ID        replace member ID by one with a new id and an empty
                         disk (adds ID to spec.retire)
  transfer NAME          transfer leadership to another voter
      --to ID                to this one
  pause NAME             suspend all changes and repairs (spec.paused: true)
  resume NAME            end the pause

options of every command:
  -n, --namespace NAME   namespace of the quorum (default: the context's)
      --context NAME     context of the kubeconfig
      --kubeconfig FILE  another kubeconfig
  -h, --help             this page

Members are numbered ID-INCARNATION, as their pods; commands take the ID.
The variable KUBECTL selects another kubectl than the one on the PATH.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 ended by Ctrl-C.
"""


class _Parser(argparse.ArgumentParser):
    """Argument parser: usage errors refer to the help text, which is the same for all commands."""

    def error(self, message: str) -> NoReturn:
        print(f"{PROGRAM}: {message}; see {PROGRAM} --help", file=sys.stderr)
        raise SystemExit(2)

    def format_help(self) -> str:
        return HELP


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    options = [f"--context={parsed.context}"] if parsed.context else []
    options += [f"--kubeconfig={parsed.kubeconfig}"] if parsed.kubeconfig else []
    call = Call(Kubectl(parsed.namespace or "", tuple(options), program()), parsed.name)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # Names and messages may have characters that the encoding of the terminal does not have.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(call, parsed)
    except CommandFailed as error:
        print(printable(f"kubectl quorum: {error}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0 if parsed.command in ("watch", "logs") else _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(
            f"kubectl quorum: the output can't be written: {error.strerror or error}",
            file=sys.stderr,
        )
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(call: Call, parsed: argparse.Namespace) -> int:
    match parsed.command:
        case "watch":
            commands.watch(call, parsed.interval, parsed.count)
            return 0
        case "logs":
            return commands.logs(call, parsed.id, parsed.follow, parsed.tail, parsed.previous)
        case "replace":
            lines = commands.replace(call, parsed.id)
        case "transfer":
            lines = commands.transfer(call, parsed.to)
        case plain:
            lines = _PLAIN[plain](call)
    print(printable("\n".join(lines)), flush=True)
    return 0


_PLAIN = {
    "status": commands.status,
    "members": commands.members,
    "pause": commands.pause,
    "resume": commands.resume,
}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM)
    names = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {name: names.add_parser(name) for name in (*_PLAIN, "watch", "logs", "replace")}
    made["transfer"] = names.add_parser("transfer")
    for each in made.values():
        each.add_argument("name", metavar="NAME")
        each.add_argument("-n", "--namespace")
        each.add_argument("--context")
        each.add_argument("--kubeconfig")
    made["watch"].add_argument("--interval", type=_seconds, default=2.0)
    made["watch"].add_argument("--count", type=_count)
    made["replace"].add_argument("id", type=_integer, metavar="ID")
    made["transfer"].add_argument("--to", type=_integer)
    logs = made["logs"]
    logs.add_argument("--id", type=_integer)
    logs.add_argument("-f", "--follow", action="store_true")
    logs.add_argument("--tail", type=_integer, default=100)
    logs.add_argument("--previous", action="store_true")
    return parser


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _count(text: str) -> int:
    value = _integer(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _MOST_PAUSE_S:  # nan is outside of every range
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds above 0 and up to {_MOST_PAUSE_S}"
        )
    return value


if __name__ == "__main__":
    sys.exit(main())
