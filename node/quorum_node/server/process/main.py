"""`quorum-node`: arguments, configuration, start-up checks, exit codes."""

import argparse
import asyncio
import gc
import logging
import sys
from pathlib import Path

import structlog
import uvloop

from quorum_node.command_line import Parser
from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.configuration.properties import ConfigError, read_pairs
from quorum_node.core_dumps import forbid_core_dumps
from quorum_node.exit_codes import ExitCode, TerminationReason
from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.server.ending.fail_stop import watch_loop, watch_threads
from quorum_node.server.ending.termination import Termination, exit_now, reason_of
from quorum_node.server.process.node_process import NodeProcess
from quorum_node.server.starting.data_permissions import NoPermission, check_permissions
from quorum_node.server.starting.first_credentials import first_credentials
from quorum_node.server.starting.recovering import recover
from quorum_node.server.starting.startup import open_replica, read_token
from quorum_node.server.starting.startup_connections import dial_as
from quorum_node.server.starting.tls_loading import TlsOfPorts, load_tls
from quorum_node.server.version import VERSION
from quorum_node.storage.directory import OpenDirectory
from quorum_node.storage.directory_lock import lock_directory
from quorum_node.storage.errors import DiskFull, StorageFailure, WrongDirectory
from quorum_node.survivor import Survivor, parse_survivor

_GC_THRESHOLDS = (50_000, 50, 100)
_SWITCH_INTERVAL_SECONDS = 0.0005
"""In seconds: the flusher thread must not wait 5 ms (the default) for a busy loop to release the interpreter."""


def main(arguments: list[str] | None = None) -> int:
    """Run the node; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    configure_logging("info")
    forbid_core_dumps()
    termination = Termination()
    try:
        pairs = read_pairs(Path(parsed.config), parsed.override)
        termination.adopt(pairs)
        config = check_config(pairs)
        configure_logging(config.log_level)
        termination.configured(config)
        check_permissions(config)
        token = read_token(config)
        tls = load_tls(config)
        dial = dial_as(config, tls)
        if termination.latch.read() is None:  # a failed disk is not used any more
            lock_directory(config.data_dir)
            if parsed.restore_from is not None:
                # Most starts restore nothing, and need not load the modules that read backups.
                from quorum_node.server.starting.restoring import place_of, restore

                source = place_of(
                    parsed.restore_from,
                    parsed.restore_endpoint,
                    parsed.restore_region,
                    parsed.restore_path_style,
                )
                restore(config, source, parsed.restore_cluster_id, termination.latch, dial)
            if parsed.recover is not None:
                recover(config, _survivor(parsed.recover), termination.latch, dial)
        directory = open_replica(config, termination, dial)
        credentials = first_credentials(config, directory)
        code = uvloop.run(_run(config, directory, token, termination, tls, credentials))
    except NoPermission as error:
        code = termination.record(TerminationReason.NO_PERMISSION, str(error))
    except ConfigError as error:
        code = termination.record(TerminationReason.BAD_CONFIGURATION, str(error))
    except WrongDirectory as error:
        code = termination.record(TerminationReason.IDENTITY_MISMATCH, str(error))
    except (StorageFailure, DiskFull) as error:
        code = termination.record(reason_of(error), str(error))
    except Exception as error:
        structlog.get_logger("quorum_node").exception("an internal error ended the node")
        code = termination.record(TerminationReason.INTERNAL_ERROR, f"internal error: {error!r}")
    exit_now(code)
    return int(code)


def _survivor(text: str) -> Survivor:
    try:
        return parse_survivor(text)
    except ValueError as error:
        raise ConfigError(f"--recover: {error}") from error


async def _run(
    config: NodeConfig,
    directory: OpenDirectory,
    token: str | None,
    termination: Termination,
    tls: TlsOfPorts,
    credentials: tuple[UserScramCredentialRecord, ...],
) -> ExitCode:
    process = _process_of(config)(config, directory, token, termination, tls, credentials)
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    watch_loop(asyncio.get_running_loop(), termination.bug)
    watch_threads(termination.bug)
    return await process.run()


def _process_of(config: NodeConfig) -> type[NodeProcess]:
    if config.broker is None:
        return NodeProcess
    # A member of the quorum saves the memory and the time of loading these modules.
    if config.broker.is_member:
        from quorum_node.server.process.combined_process import CombinedProcess

        return CombinedProcess
    from quorum_node.server.process.broker_process import BrokerProcess

    return BrokerProcess


def configure_logging(level: str) -> None:
    """JSON lines on stdout; the text is in `message`."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=False,
    )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="quorum-node",
        description="One replica of a Raft metadata quorum that speaks Kafka's protocol.",
    )
    parser.add_argument("--config", required=True, help="Java-properties file")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property that overrides the file; may be repeated",
    )
    parser.add_argument(
        "--recover",
        metavar="UUID:EPOCH:END_OFFSET",
        help="use only if a majority of the voters is lost for good: makes this replica, if its log ends there, the sole"
        " voter, then runs it. Committed records beyond its log are lost. A copy of the directory is kept",
    )
    parser.add_argument(
        "--restore-from",
        metavar="DIR",
        help="starts a new quorum in an empty data directory with the records of a backup, of the newest backup in a"
        " folder, or of a replica's directory, which is only read. Has no effect on a formatted directory. A backup or"
        " folder in an object store is s3://BUCKET/PREFIX, with the credentials that boto3 finds",
    )
    parser.add_argument(
        "--restore-endpoint", metavar="URL", help="of an object store other than Amazon S3"
    )
    parser.add_argument("--restore-region", metavar="NAME", help="region of the bucket")
    parser.add_argument(
        "--restore-path-style",
        choices=["true", "false"],
        help="whether the bucket is in the path of the URL, or in the host's name; default: the path if there is an"
        " endpoint",
    )
    parser.add_argument(
        "--restore-cluster-id",
        metavar="ID",
        help="the cluster id of the backup, if cluster.id is a new one: epochs then start again at 1",
    )
    parser.add_argument("--version", action="version", version=f"quorum-node {VERSION}")
    return parser
