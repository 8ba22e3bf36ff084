"""`quorum-backup`: arguments and exit codes."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

from quorum_node.archiver.taking import NotPruned, take
from quorum_node.backups.contents import check_files, read_contents
from quorum_node.backups.files import BackupFiles, DirectoryFiles
from quorum_node.backups.folder import manifests_in
from quorum_node.backups.manifest import BackupError, Manifest, read_manifest
from quorum_node.backups.object_address import ObjectAddress, Place, parse_place
from quorum_node.client.committed_log import CommittedLog, CommittedLogError, parsed_addresses
from quorum_node.client_tls import ClientSettingsError, ClientTlsError, tls_of_options
from quorum_node.command_line import INTERRUPTED, Parser, print_result, printable

NOT_PRUNED = 3
"""Exit code. A Job must not try again: each attempt would add a backup."""
EXIT_CODES = {
    0: "done",
    1: "refused or failed, or the backup is damaged; the reason is on stderr",
    2: "wrong usage",
    NOT_PRUNED: "the backup is complete, but older ones could not be deleted; the reason is on stderr",
    INTERRUPTED: "ended by Ctrl-C or SIGTERM; no backup was written, unless it was already complete",
}
_MOST_DIGITS = 9
_MOST_SECONDS = 86_400
_MOST_SUMMARY = 3000
"""Maximum characters of an error in the summary. Kubernetes limits a termination message to 4,096 bytes."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        with _interrupted_by_sigterm():
            lines: list[str] = parsed.command(parsed)
    except (BackupError, CommittedLogError, ClientTlsError) as error:
        print(printable(f"quorum-backup: {error}"), file=sys.stderr)
        written = _summary(error.manifest) if isinstance(error, NotPruned) else {}
        _summarize(parsed, {**written, "error": str(error)[:_MOST_SUMMARY]})
        if isinstance(error, NotPruned):
            return NOT_PRUNED
        return 2 if isinstance(error, _WrongUsage | ClientSettingsError) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return print_result("quorum-backup", "\n".join(lines))


class _WrongUsage(BackupError):
    """An argument is malformed."""


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does, so that unfinished copies are deleted. The first process of a container would
    ignore it otherwise.
    """

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _take(parsed: argparse.Namespace) -> list[str]:
    target = _place(parsed, parsed.target)
    addresses = _addresses(parsed.bootstrap)
    tls = tls_of_options(parsed.tls, parsed.command_config)
    log = CommittedLog(addresses, parsed.timeout, client_id="quorum-backup", tls=tls)
    try:
        if isinstance(target, ObjectAddress):
            manifest = _take_to_store(log, target, parsed)
        else:
            manifest = take(log, target, parsed.keep, _version())
    finally:
        log.close()
    _summarize(parsed, _summary(manifest))
    return [_line(manifest)]


def _take_to_store(
    log: CommittedLog, target: ObjectAddress, parsed: argparse.Namespace
) -> Manifest:
    from quorum_node.archiver.taking_to_store import take_to_store
    from quorum_node.backups.object_store import connect
    from quorum_node.backups.stored_source import folder_of

    scratch = parsed.scratch or _temporary_directory()
    with closing(connect(target, parsed.timeout)) as store:
        backups = folder_of(store, target)
        return take_to_store(log, backups, scratch, parsed.keep, _version())


def _temporary_directory() -> Path:
    """The temporary directory. Called only if needed, as a container with a read-only root may have none. Raises BackupError."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise BackupError(
            "there is no writable directory for temporary files: specify one with --scratch, or in TMPDIR"
        ) from None


def _list(parsed: argparse.Namespace) -> list[str]:
    place = _place(parsed, parsed.folder)
    lines = [
        _line(manifest) if isinstance(manifest, Manifest) else f"{name}: {manifest}"
        for name, manifest in _manifests_in(place)
    ]
    return lines or [f"{place} contains no backup"]


def _manifests_in(place: Place) -> list[tuple[str, Manifest | BackupError]]:
    if isinstance(place, ObjectAddress):
        from quorum_node.backups.object_store import connect
        from quorum_node.backups.stored_source import folder_of

        with closing(connect(place)) as store:
            return folder_of(store, place).complete()
    return manifests_in(place)


def _verify(parsed: argparse.Namespace) -> list[str]:
    place = _place(parsed, parsed.backup)
    if isinstance(place, ObjectAddress):
        from quorum_node.backups.object_store import connect
        from quorum_node.backups.stored_source import stored_backup

        with closing(connect(place)) as store:
            source = stored_backup(store, place)
            if source is None or source.manifest is None:
                raise BackupError(
                    f"{place} is not a backup: give a name that `quorum-backup list` prints"
                )
            return [_verified(source.files, source.manifest)]
    return [_verified(DirectoryFiles(place), read_manifest(place))]


def _verified(files: BackupFiles, manifest: Manifest) -> str:
    check_files(files, manifest)
    found = read_contents(files)
    if found.end_offset != manifest.end_offset:
        raise BackupError(
            f"{files.place} ends at offset {found.end_offset}, but its manifest says {manifest.end_offset}: use another backup"
        )
    return f"{_line(manifest)}: complete, replayed without errors"


def _place(parsed: argparse.Namespace, text: str) -> Place:
    try:
        return parse_place(text, parsed.endpoint, parsed.region, parsed.path_style)
    except BackupError as error:
        raise _WrongUsage(str(error)) from None


def _addresses(text: str) -> list[tuple[str, int]]:
    try:
        return parsed_addresses(text)
    except CommittedLogError as error:
        raise _WrongUsage(f"--bootstrap: {error}") from None


def _summary(manifest: Manifest) -> dict[str, str | int]:
    return {
        "name": manifest.name,
        "clusterId": manifest.cluster_id,
        "takenAt": manifest.taken_at_text,
        "endOffset": manifest.end_offset,
        "epoch": manifest.epoch,
        "metadataVersion": manifest.metadata_version,
        "bytes": manifest.size_bytes,
    }


def _line(manifest: Manifest) -> str:
    return (
        f"{manifest.name}  cluster {manifest.cluster_id}, taken {manifest.taken_at_text}, up to offset"
        f" {manifest.end_offset} in epoch {manifest.epoch}, metadata.version {manifest.metadata_version},"
        f" {manifest.size_bytes} bytes"
    )


def _summarize(parsed: argparse.Namespace, document: dict[str, str | int]) -> None:
    path: Path | None = getattr(parsed, "summary", None)
    if path is None:
        return
    try:
        path.write_text(json.dumps(document))
    except OSError as error:
        # The result is on stdout or stderr in any case, and a backup that was published is not undone.
        print(
            f"quorum-backup: --summary {path} can't be written: {error.strerror or error}",
            file=sys.stderr,
        )


def _version() -> str:
    # The codecs take a moment to load, and only writing a backup needs them.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("metadataquorum")
    except PackageNotFoundError:
        return "unknown"


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of backups: write 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= found <= _MOST_SECONDS:  # nan is outside of every range
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds from 0 to {_MOST_SECONDS}"
        )
    return found


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="quorum-backup",
        description="Back up the metadata of a running quorum, and check backups.",
        epilog="exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()),
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_take(
        commands.add_parser("take", help="write a backup, check it, publish it, delete the oldest")
    )
    listing = commands.add_parser("list", help="the backups in a folder, oldest first")
    listing.add_argument("folder", help="a directory, or s3://BUCKET/PREFIX")
    _add_store_options(listing)
    listing.set_defaults(command=_list)
    verifying = commands.add_parser("verify", help="read a whole backup, check it and replay it")
    verifying.add_argument("backup", help="a directory, or s3://BUCKET/PREFIX/NAME")
    _add_store_options(verifying)
    verifying.set_defaults(command=_verify)
    return parser


def _add_take(taking: argparse.ArgumentParser) -> None:
    taking.add_argument(
        "--bootstrap",
        required=True,
        metavar="HOST:PORT,…",
        help="controller listeners of the quorum",
    )
    taking.add_argument(
        "--target",
        required=True,
        metavar="DIR",
        help="the folder to write the backup into: a directory, or s3://BUCKET/PREFIX in an object store",
    )
    taking.add_argument(
        "--keep",
        type=_count,
        default=7,
        metavar="N",
        help="backups of this cluster to keep; default 7",
    )
    taking.add_argument(
        "--tls", type=Path, metavar="DIR", help="tls.crt and tls.key of an archiver, and ca.crt"
    )
    taking.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="the same as properties of Kafka's tools: security.protocol=SSL and ssl.* with PEM files",
    )
    taking.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit for a response of the leader",
    )
    taking.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="file for the result as JSON: the backup, or the error, or both with exit code 3",
    )
    taking.add_argument(
        "--scratch",
        type=Path,
        metavar="DIR",
        help="with an object store: a directory for a copy of the metadata, which is deleted in the end; default TMPDIR",
    )
    _add_store_options(taking)
    taking.set_defaults(command=_take)


def _add_store_options(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group(
        "object stores",
        "Credentials, and what is not given here, come from boto3's environment variables and configuration files, such"
        " as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL_S3, AWS_DEFAULT_REGION and AWS_CA_BUNDLE.",
    )
    options.add_argument("--endpoint", metavar="URL", help="of a store other than Amazon S3")
    options.add_argument("--region", metavar="NAME", help="region of the bucket")
    options.add_argument(
        "--path-style",
        action=argparse.BooleanOptionalAction,
        help="whether the bucket is in the path of the URL, or in the host's name; default: the path if there is an endpoint",
    )
