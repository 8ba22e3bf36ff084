"""`quorum-backup`: arguments and exit codes.

0: done. 1: refused or failed; the reason is on stderr and in the summary. 2: wrong usage.
"""

import argparse
import json
import sys
from pathlib import Path

from quorum_node.archiver.taking import take
from quorum_node.backups.contents import check_files, read_contents
from quorum_node.backups.folder import backups_in
from quorum_node.backups.manifest import BackupError, Manifest, read_manifest
from quorum_node.client.committed_log import CommittedLog, CommittedLogError, parsed_addresses
from quorum_node.client_tls import ClientTlsError, tls_of_options
from quorum_node.storage.partition_directory import partition_directory

_MOST_SUMMARY = 3000
"""Maximum characters of an error in the summary. Kubernetes limits a termination message to 4,096 bytes."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        lines: list[str] = parsed.command(parsed)
    except (BackupError, CommittedLogError, ClientTlsError) as error:
        print(f"quorum-backup: {error}", file=sys.stderr)
        _summarize(parsed, {"error": str(error)[:_MOST_SUMMARY]})
        return 1
    print("\n".join(lines))
    return 0


def _take(parsed: argparse.Namespace) -> list[str]:
    tls = tls_of_options(parsed.tls, parsed.command_config)
    log = CommittedLog(
        parsed_addresses(parsed.bootstrap), parsed.timeout, client_id="quorum-backup", tls=tls
    )
    try:
        manifest = take(log, parsed.target, parsed.keep, _version())
    finally:
        log.close()
    _summarize(parsed, _summary(manifest))
    return [_line(manifest)]


def _list(parsed: argparse.Namespace) -> list[str]:
    lines = []
    for each in backups_in(parsed.folder):
        try:
            lines.append(_line(read_manifest(each)))
        except BackupError as error:
            lines.append(f"{each.name}: {error}")
    return lines or [f"{parsed.folder} contains no backup"]


def _verify(parsed: argparse.Namespace) -> list[str]:
    manifest = read_manifest(parsed.backup)
    check_files(parsed.backup, manifest)
    found = read_contents(partition_directory(parsed.backup, 0))
    if found.end_offset != manifest.end_offset:
        raise BackupError(
            f"{parsed.backup} ends at offset {found.end_offset}, but its manifest says {manifest.end_offset}: use another backup"
        )
    return [f"{_line(manifest)}: complete, replayed without errors"]


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
    if path is not None:
        path.write_text(json.dumps(document))


def _version() -> str:
    # The codecs take a moment to load, and only writing a backup needs them.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("metadataquorum")
    except PackageNotFoundError:
        return "unknown"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of backups: write 1 or more")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quorum-backup",
        description="Back up the metadata of a running quorum, and check backups.",
    )
    names = parser.add_subparsers(required=True, metavar="COMMAND")
    taking = names.add_parser(
        "take", help="write a backup, check it, publish it, delete the oldest"
    )
    taking.add_argument(
        "--bootstrap",
        required=True,
        metavar="HOST:PORT,…",
        help="controller listeners of the quorum",
    )
    taking.add_argument(
        "--target",
        required=True,
        type=Path,
        metavar="DIR",
        help="the folder to write the backup into",
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
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time limit for a response of the leader",
    )
    taking.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="file for the result as JSON: the backup, or the error",
    )
    taking.set_defaults(command=_take)
    listing = names.add_parser("list", help="the backups in a folder, oldest first")
    listing.add_argument("folder", type=Path)
    listing.set_defaults(command=_list)
    verifying = names.add_parser("verify", help="read a whole backup, check it and replay it")
    verifying.add_argument("backup", type=Path)
    verifying.set_defaults(command=_verify)
    return parser
