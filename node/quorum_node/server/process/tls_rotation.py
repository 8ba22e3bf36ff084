"""Renewal of certificates while the node runs: checks the files periodically, and informs the parts that use them.

Owns the interval and the log lines. `transport/tls_files` decides which files are used.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from quorum_node.security.tls.certificates import summary
from quorum_node.security.tls.material import is_renewal_due
from quorum_node.security.tls.problems import CertificateProblem
from quorum_node.server.ending.fail_stop import watch_task
from quorum_node.server.listener.mixed_authentication import MixedAuthentication
from quorum_node.server.listener.tls_authentication import TlsAuthentication
from quorum_node.server.transport.tls_files import Prepared, TlsFiles, read_files

_LOG = structlog.get_logger("quorum_node")


class TlsRotation:
    """`renew`: called with a time in seconds since 1970; connections authenticated until then at most must be replaced.

    `dialled`: names of the listeners whose certificates this node uses for outgoing connections.
    """

    def __init__(
        self,
        files: Mapping[str, TlsFiles],
        authentications: Mapping[str, TlsAuthentication | MixedAuthentication],
        dialled: frozenset[str],
        poll_ms: int,
        renew: Callable[..., None],
    ) -> None:
        self._files = files
        self._authentications = authentications
        self._dialled = dialled
        self._poll_seconds = poll_ms / 1000
        self._renew = renew
        self._paths = frozenset().union(*(each.paths for each in files.values()))
        self._reported: dict[str, CertificateProblem | None] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Check periodically from now on."""
        for each in self._files.values():
            _log_what_is_used(each)
            self._log_problem(each)
        self._task = asyncio.get_running_loop().create_task(self._poll())
        watch_task(self._task)

    def stop(self) -> None:
        """Stop checking."""
        if self._task is not None:
            self._task.cancel()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            # In a thread: a file system that hangs must not block the loop, and the checks take longer
            # than a write.
            self._take(await asyncio.to_thread(self._prepare))

    def _prepare(self) -> dict[str, Prepared]:
        contents = read_files(self._paths)
        return {name: files.prepare(contents) for name, files in self._files.items()}

    def _take(self, found: Mapping[str, Prepared]) -> None:
        """Compare the files that were read with those in use, and replace what has changed."""
        for name, prepared in found.items():
            files = self._files[name]
            before = files.material
            if files.take(prepared):
                authentication = self._authentications.get(name)
                if authentication is not None:
                    authentication.changed()
                _log_what_is_used(files)
                if name in self._dialled and is_renewal_due(before, files.material):
                    self._renew()
            self._log_problem(files)
        self._renew(proven_before=time.time())

    def _log_problem(self, files: TlsFiles) -> None:
        reported, problem = self._reported.get(files.name), files.problem or files.own_problem
        self._reported[files.name] = problem
        if problem is not None and not problem.is_same(reported):
            until = summary(files.material.pair.leaf).not_after
            goes_on = f"continues to use the previous certificate, valid until {until:%Y-%m-%d %H:%M:%S} UTC"
            what = (
                goes_on if problem is files.problem else "presents a certificate that others refuse"
            )
            _LOG.warning(f"listener {files.name} {what}: {problem}", listener=files.name)
        elif problem is None and reported is not None:
            _LOG.info(f"the certificates of listener {files.name} are valid again")


def _log_what_is_used(files: TlsFiles) -> None:
    shown, trust = summary(files.material.pair.leaf), files.trust
    trusted = 0 if trust is None else len(trust.certificates)
    _LOG.info(
        f"listener {files.name} presents {shown.subject}, valid until {shown.not_after:%Y-%m-%d %H:%M:%S} UTC, and accepts"
        f" certificates of {trusted} {'authority' if trusted == 1 else 'authorities'}",
        listener=files.name,
        certificateSha256=shown.sha256,
        serial=shown.serial,
        revoked=len(files.material.revoked),
    )
    for each in () if trust is None else trust.expired:
        gone = summary(each)
        _LOG.warning(
            f"listener {files.name} no longer accepts certificates of {gone.subject}: it expired at"
            f" {gone.not_after:%Y-%m-%d %H:%M:%S} UTC",
            listener=files.name,
        )
