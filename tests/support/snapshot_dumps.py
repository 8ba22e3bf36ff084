"""Images that running nodes dump: a randomly chosen node writes a snapshot, and its file is kept.

Owns the times and the copies: hard links, so that a node may delete its own file. Must not know what is compared with them.
"""

import contextlib
import os
import random
import threading
from pathlib import Path

import httpx

from support.local_quorum import TOKEN, LocalNode, LocalQuorum

LOG_DIRECTORY = "__cluster_metadata-0"
_PAUSE_SECONDS = (0.1, 1.0)


class SnapshotDumps:
    """As a context manager: dumps are made until it ends. `files`: name of the snapshot → its copy."""

    def __init__(self, quorum: LocalQuorum, directory: Path, seed: int) -> None:
        self._quorum = quorum
        self._directory = directory
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.files: dict[str, Path] = {}
        directory.mkdir()

    def __enter__(self) -> "SnapshotDumps":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(90)

    def dump(self, client: httpx.Client) -> None:
        """One node dumps its image; if it is killed meanwhile, there is no dump."""
        running = [node for node in self._quorum.nodes.values() if node.is_running]
        node = self._rng.choice(running)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with contextlib.suppress(httpx.TransportError):
            client.post(f"{node.admin_url}/v1/snapshot", headers=headers, timeout=60)
            self._keep(node)

    def _run(self) -> None:
        with httpx.Client(trust_env=False) as client:
            while not self._stop.wait(self._rng.uniform(*_PAUSE_SECONDS)):
                self.dump(client)

    def _keep(self, node: LocalNode) -> None:
        for path in sorted((node.data_dir / LOG_DIRECTORY).glob("*.checkpoint")):
            target = self._directory / path.name
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.link(path, target)
                self.files[path.name] = target
