"""Apache ZooKeeper for comparison: three servers with default settings, driven by ZooKeeper's own Java client.

Server and client come from Maven Central (bench/zookeeper/pom.xml), kept in the cache outside of the checkout. Every
write is synced (forceSync is on by default). Two settings are not the default: maxClientCnxns (the default allows 60 connections from one
address) and the four-letter commands that name the leader.
"""

import hashlib
import re
import socket
import subprocess
import time
from functools import cache
from pathlib import Path

from contender import BENCH, CLOSED_LOOP, MEMBERS, Cluster

from support import stock_kafka

SOURCE = BENCH / "zookeeper"
FIRST_PORT = 24420
HEAP_MB = 1000
"""Heap of a server, as its own start script sets it."""
CLIENT_HEAP_MB = 1024


@cache
def jars() -> Path:
    """Jars of the server, the client and their dependencies. Raises KafkaUnavailable without Java, Maven or Maven Central."""
    return stock_kafka.resolved(SOURCE / "pom.xml", "zookeeper")


def version() -> str:
    """Version of server and client."""
    found = re.search(
        r"<zookeeper.version>(.+)</zookeeper.version>", (SOURCE / "pom.xml").read_text()
    )
    assert found is not None
    return found[1]


@cache
def driver() -> Path:
    """The classes of the load generator and prober."""
    sources = [SOURCE / "ZooKeeperLoad.java", CLOSED_LOOP]
    text = b"".join(each.read_bytes() for each in sources)
    digest = hashlib.sha256(text + str(jars()).encode()).hexdigest()[:16]
    folder = stock_kafka.cache_directory() / "zookeeper" / f"classes-{digest}"
    if not folder.exists():
        classes = ["-cp", f"{jars()}/*", "-d", str(folder)]
        compiler = ["javac", "-nowarn", *classes, *map(str, sources)]
        subprocess.run(compiler, check=True, timeout=120)
    return folder


def ask(member: int, word: str) -> str:
    """The response to a four-letter command; empty if the server does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", FIRST_PORT + member), timeout=1) as connection:
            connection.sendall(word.encode())
            connection.settimeout(1)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts).decode(errors="replace")
    except OSError:
        return ""


class ZooKeeperCluster(Cluster):
    """ZooKeeper with default settings: ticks of 2 s, a follower abandons a leader after 5 ticks."""

    name = "zookeeper"
    fault_window_seconds = 6.0
    freeze_window_seconds = 25.0

    def create(self) -> None:
        jars(), driver()
        for member in MEMBERS:
            folder = self.directory / f"member-{member}"
            (folder / "data").mkdir(parents=True, exist_ok=True)
            (folder / "data" / "myid").write_text(f"{member + 1}\n")
            servers = "".join(
                f"server.{each + 1}=127.0.0.1:{FIRST_PORT + 10 + each}:{FIRST_PORT + 20 + each}\n"
                for each in MEMBERS
            )
            (folder / "zoo.cfg").write_text(
                f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={folder}/data\n"
                f"clientPort={FIRST_PORT + member}\nclientPortAddress=127.0.0.1\n"
                f"maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n{servers}"
            )
            self.launch(member)
        self.await_whole()

    def command(self, member: int) -> list[str]:
        config = str(self.directory / f"member-{member}" / "zoo.cfg")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["java", f"-Xmx{HEAP_MB}m", "-cp", f"{jars()}/*", main, config]

    def leader(self) -> int:
        for _ in range(600):
            for member in MEMBERS:
                if "Mode: leader" in ask(member, "srvr"):
                    return member
            time.sleep(0.05)
        raise TimeoutError("ZooKeeper has no leader")

    def await_whole(self) -> None:
        # A server reports that it follows only after Zab's synchronization phase.
        for _ in range(1200):
            modes = re.findall(r"Mode: (\w+)", "".join(ask(member, "srvr") for member in MEMBERS))
            if sorted(modes) == ["follower", "follower", "leader"]:
                return
            time.sleep(0.05)
        raise TimeoutError("ZooKeeper is not whole")

    def servers(self) -> str:
        """All client addresses."""
        return ",".join(f"127.0.0.1:{FIRST_PORT + member}" for member in MEMBERS)

    def driver_command(self, *arguments: object) -> list[str]:
        """The generator or the prober."""
        path = f"{jars()}/*:{driver()}"
        heap = f"-Xmx{CLIENT_HEAP_MB}m"
        return ["java", heap, "-cp", path, "ZooKeeperLoad", *map(str, arguments)]

    def load_command(self, clients: int, seconds: float, warmup: float) -> list[str]:
        # A JVM client needs a longer warm-up than the others to be measured fairly.
        return self.driver_command("load", self.servers(), clients, seconds, max(warmup, 3.0), 256)

    def probe_command(self, seconds: float, output: Path) -> list[str]:
        return self.driver_command("probe", self.servers(), seconds, output)
