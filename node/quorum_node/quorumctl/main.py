"""`quorumctl`: arguments, environment, exit codes."""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from quorum_node.api import Consistency
from quorum_node.client_tls import (
    ClientSettingsError,
    ClientTls,
    ClientTlsError,
    tls_of_folder,
    tls_of_options,
)
from quorum_node.command_line import (
    INTERRUPTED,
    Parser,
    discard_output,
    print_result,
    printable,
)
from quorum_node.quorumctl import commands
from quorum_node.quorumctl.alter import alter
from quorum_node.quorumctl.arguments import check_arguments
from quorum_node.quorumctl.client import AdminClient, CommandFailed, WrongUsage
from quorum_node.quorumctl.output import in_json
from quorum_node.quorumctl.watch import watch

EXIT_CODES = {
    0: "done",
    1: "refused or failed; the reason is on stderr",
    2: "wrong usage: an argument, or a property in the file of --command-config",
    INTERRUPTED: "ended by Ctrl-C; a change that was requested may have been made. `watch` ends with 0",
}
# Fields of requests, and the options that fill them.
_OPTIONS = {"timeout_ms": "--timeout-ms", "id": "--id", "successor_id": "--successor"}
_DEFAULT_ADMIN = "http://127.0.0.1:8080"
_DEFAULT_SECURE_ADMIN = "https://localhost:8443"
_TOKEN = re.compile("[!-~]+")
"""What can be sent in a header of HTTP. Its libraries show a header that they refuse."""
_MOST_TOKEN_BYTES = 1 << 20
_NO_TOKEN = "holds no token: a token is one word of ASCII characters, on one line"
_OF_A_MEMBER = Path("/etc/metadataquorum-tls")
"""Where the operator mounts the certificate of a member."""

if TYPE_CHECKING:
    Names = argparse._SubParsersAction[Parser]  # noqa: SLF001 - argparse has no other name for it


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        check_arguments(parsed)
        if parsed.command is watch and parsed.json:
            raise WrongUsage("watch prints no JSON: use `quorumctl --json describe`, repeatedly")
        tls = _tls(parsed.tls, parsed.command_config)
        with AdminClient(
            _urls(parsed.admin, tls),
            _token(parsed.token_file),
            parsed.timeout_ms,
            parsed.partition,
            _trusted_hosts(parsed.trust),
            tls,
        ) as client:
            if parsed.command is watch:
                watch(client, parsed.interval, parsed.count)
                return 0
            document, lines = parsed.command(client, parsed)
    except CommandFailed as error:
        print(printable(f"quorumctl: {error}"), file=sys.stderr)
        return 2 if isinstance(error, WrongUsage) else 1
    except ValidationError as error:  # of a request, so of the arguments
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        print(f"quorumctl: {_OPTIONS.get(field, field)}: {first['msg']}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0 if parsed.command is watch else INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return 0
    if parsed.json:
        lines = [in_json(document)]
    return print_result("quorumctl", "\n".join(lines))


def _tls(folder: str | None, command_config: str | None) -> ClientTls | None:
    """TLS settings from the options, else the environment, else the certificate mounted in a member's pod."""
    if not folder and not command_config:
        folder = os.environ.get("QUORUMCTL_TLS")
        command_config = "" if folder else os.environ.get("QUORUMCTL_COMMAND_CONFIG")
    try:
        if folder or command_config:
            return tls_of_options(
                Path(folder) if folder else None, Path(command_config) if command_config else None
            )
        return tls_of_folder(_OF_A_MEMBER) if (_OF_A_MEMBER / "tls.crt").exists() else None
    except ClientSettingsError as error:
        raise WrongUsage(str(error)) from error
    except ClientTlsError as error:
        raise CommandFailed(str(error)) from error


def _urls(given: list[str], tls: ClientTls | None) -> list[str]:
    default = _DEFAULT_ADMIN if tls is None else _DEFAULT_SECURE_ADMIN
    texts = given or [os.environ.get("QUORUMCTL_ADMIN") or default]
    urls = [url.strip() for text in texts for url in text.split(",") if url.strip()]
    if not urls:
        raise WrongUsage("--admin names no URL: write http://host:8080 or https://host:8443")
    return urls


def _trusted_hosts(given: list[str]) -> list[str]:
    texts = given or [os.environ.get("QUORUMCTL_TRUST", "")]
    return [host.strip() for text in texts for host in text.split(",") if host.strip()]


def _token(path: str | None) -> str | None:
    """The token, of a file its first one. Messages show no part of it, nor the name of the file: by mistake it may be the token itself."""
    path = path or os.environ.get("QUORUMCTL_TOKEN_FILE")
    if not path:
        token = os.environ.get("QUORUMCTL_TOKEN")
        if token and not _TOKEN.fullmatch(token):
            raise CommandFailed(f"QUORUMCTL_TOKEN {_NO_TOKEN}")
        return token
    try:
        with Path(path).open("rb") as file:  # by mistake it may be a device without an end
            data = file.read(_MOST_TOKEN_BYTES + 1)
        lines = data.decode("utf-8-sig").split("\n") if len(data) <= _MOST_TOKEN_BYTES else []
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CommandFailed(f"the token file (--token-file) can't be read: {why}") from error
    except UnicodeDecodeError:
        raise CommandFailed(f"the token file (--token-file) {_NO_TOKEN}") from None
    # Every line of a node's file is a token: during a rotation the file has the old and the new one.
    token = next((line.strip() for line in lines if line.strip()), "")
    if not _TOKEN.fullmatch(token):
        raise CommandFailed(f"the token file (--token-file) {_NO_TOKEN}")
    return token


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="quorumctl",
        description="Inspect and change a metadata quorum, through any node's admin API.",
        epilog="exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()),
    )
    _add_common(parser)
    names = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_describe(names)
    _add_voters(names)
    _add_values(names)
    _add_log(names)
    return parser


def _add_common(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """Options that may precede or follow the command. Only those before it have defaults."""

    def default(value: object) -> object:
        return argparse.SUPPRESS if again else value

    parser.add_argument(
        "--admin",
        action="append",
        default=default([]),
        metavar="URL[,URL...]",
        help=f"admin URLs (or QUORUMCTL_ADMIN; default {_DEFAULT_ADMIN}, with TLS {_DEFAULT_SECURE_ADMIN})",
    )
    parser.add_argument(
        "--token-file",
        default=default(None),
        help="file with the admin token in its first line (or QUORUMCTL_TOKEN_FILE; QUORUMCTL_TOKEN holds the token itself)",
    )
    parser.add_argument(
        "--tls",
        default=default(None),
        metavar="DIR",
        help="a folder with ca.crt, tls.crt and tls.key (or QUORUMCTL_TLS; default in a member's pod: the member's own)",
    )
    parser.add_argument(
        "--command-config",
        default=default(None),
        metavar="FILE",
        help="the same as properties of Kafka's tools: security.protocol=SSL and ssl.* with PEM files"
        " (or QUORUMCTL_COMMAND_CONFIG)",
    )
    parser.add_argument(
        "--trust",
        action="append",
        default=default([]),
        metavar="HOST[,HOST...]",
        help="more hosts that may receive the token if they are the leader: a host name, or .SUFFIX for all names below it"
        " (or QUORUMCTL_TRUST; default in a pod: the pods of its Service)",
    )
    parser.add_argument(
        "--partition",
        type=int,
        default=default(None),
        metavar="N",
        help="quorum partition, if nodes host several (default 0)",
    )
    parser.add_argument(
        "--timeout-ms",
        type=int,
        default=default(5000),
        help="time limit of the command in milliseconds (default 5000)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=default(False),
        help="print the API's JSON document instead of a table",
    )


def _command(names: "Names", name: str, text: str) -> Parser:
    parser = names.add_parser(name, help=text)
    _add_common(parser, again=True)
    return parser


def _add_describe(names: "Names") -> None:
    describe = _command(names, "describe", "a summary; or: status, replication, local")
    unconfirmed = "the node's own view, without waiting for a majority"
    describe.add_argument("--unconfirmed", action="store_true", help=unconfirmed)
    describe.set_defaults(command=commands.describe_summary)
    views = describe.add_subparsers(metavar="VIEW")
    for name, command, text in (
        ("status", commands.describe_status, "leader, epoch, high watermark, voters"),
        ("replication", commands.describe_replication, "progress of every replica"),
    ):
        view = _command(views, name, text)
        # Without SUPPRESS the default of the view would replace the option that precedes the view.
        view.add_argument(
            "--unconfirmed", action="store_true", default=argparse.SUPPRESS, help=unconfirmed
        )
        view.set_defaults(command=command)
    local = _command(views, "local", "the node's own state; works without a leader")
    local.set_defaults(command=commands.describe_local)
    discover = _command(names, "discover", "where the voters listen, as far as the node knows")
    discover.set_defaults(command=commands.discover)
    live = _command(names, "watch", "the quorum, live; as text only")
    live.add_argument(
        "--interval",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="pause between two updates (default 0.5)",
    )
    live.add_argument("--count", type=int, help="stop after COUNT updates")
    live.set_defaults(command=watch)


def _add_voters(names: "Names") -> None:
    add = _command(names, "add-voter", "make a running, caught-up node a voter")
    add.add_argument(
        "--node",
        metavar="URL",
        help="admin URL of the node; id, UUID and endpoints are read from it",
    )
    add.add_argument("--id", type=int, help="node id of the replica, if --node is not given")
    add.add_argument("--uuid", help="its directory id, 22 characters")
    add.add_argument("--controller", metavar="HOST:PORT", help="address of its controller listener")
    add.add_argument("--admin-endpoint", metavar="HOST:PORT", help="address of its admin API")
    add.add_argument(
        "--count-newcomer",
        action="store_true",
        help="count the new voter as live in the safety check: to replace a failed voter by adding the new one first",
    )
    add.set_defaults(command=commands.add_voter)
    remove = _command(names, "remove-voter", "remove one replica key from the voters")
    remove.add_argument("id", type=int, help="node id of the voter")
    remove.add_argument(
        "uuid", help="its directory id, as `quorumctl describe replication` prints it"
    )
    remove.set_defaults(command=commands.remove_voter)
    change = _command(
        names, "alter", "set the target voters; the leader then changes one voter at a time"
    )
    which = change.add_mutually_exclusive_group(required=True)
    which.add_argument("--voters", metavar="ID[:UUID],...", help="the target voters")
    which.add_argument(
        "--cancel", action="store_true", help="cancel the target and keep the present voters"
    )
    change.add_argument(
        "--follow", action="store_true", help="print each step until the target is reached"
    )
    change.set_defaults(command=alter)
    for parser in (add, remove, change):
        parser.add_argument(
            "--expected-offset", type=int, help="refuse unless the voters record has this offset"
        )
        parser.add_argument(
            "--expected-epoch", type=int, help="refuse unless the voters record has this epoch"
        )
    resign = _command(names, "resign", "transfer leadership to another voter")
    resign.add_argument(
        "--successor",
        type=int,
        metavar="ID",
        help="node id of the voter that becomes leader; default: the most caught-up one",
    )
    resign.set_defaults(command=commands.resign)


def _add_values(names: "Names") -> None:
    put = _command(names, "put", "set one value; returns after the commit")
    put.add_argument("key", help="type/resource/name, such as topic/orders/retention.ms")
    put.add_argument("value", nargs="?", help="the value, as one argument")
    put.add_argument("--delete", action="store_true", help="delete the key")
    put.set_defaults(command=commands.put)
    get = _command(names, "get", "read one value")
    get.add_argument("key", help="type/resource/name")
    get.add_argument(
        "--offset",
        action="store_true",
        help="print a second line with the offset of the read state, and its age",
    )
    _add_consistency(get, Consistency.LINEARIZABLE)
    get.set_defaults(command=commands.get)
    listing = _command(names, "list", "read values by the beginning of their keys")
    listing.add_argument(
        "prefix",
        nargs="?",
        default="",
        help="beginning of the keys, such as topic/orders/; default: all",
    )
    _add_consistency(listing, Consistency.LOCAL)
    listing.set_defaults(command=commands.list_configs)


def _add_consistency(parser: argparse.ArgumentParser, default: Consistency) -> None:
    parser.add_argument(
        "--consistency",
        choices=[each.value for each in Consistency],
        default=default.value,
        help=f"linearizable: reflects all writes before this call, on any node; local: the node's own state, without a round trip (default {default.value})",
    )
    parser.add_argument(
        "--local",
        dest="consistency",
        action="store_const",
        const=Consistency.LOCAL.value,
        help="the same as --consistency local",
    )


def _add_log(names: "Names") -> None:
    log = _command(names, "log", "committed records from the node's own log")
    log.add_argument("--from-offset", type=int, help="default: where the node's log starts")
    log.add_argument(
        "--max-records", type=int, default=100, help="maximum number of records (default 100)"
    )
    log.set_defaults(command=commands.log)
    moving = _command(names, "reassignments", "partitions that are moving to other brokers now")
    moving.set_defaults(command=commands.reassignments)
    snapshot = _command(names, "snapshot", "make the node write a snapshot of its state now")
    snapshot.set_defaults(command=commands.snapshot)
    history = _command(names, "voter-history", "all voter sets in the node's log")
    history.set_defaults(command=commands.voter_history)


if __name__ == "__main__":
    sys.exit(main())
