"""The limit of open files follows the connections that are allowed."""

import resource
import subprocess
import sys

LOW = 256


def soft_limit_after(count: int, hard: int, *, has_logs: bool = False) -> tuple[int, str]:
    """In a process of its own that begins with LOW."""
    program = (
        "import resource; from quorum_node.server.process.file_limit import allow_connections;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({LOW}, {hard}));"
        f"allow_connections({count}, has_logs={has_logs}); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout.splitlines()
    return int(lines[-1]), "\n".join(lines[:-1])


def test_open_file_limit_is_raised_as_far_as_needed_and_allowed() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4096
    assert soft_limit_after(1400, 4096) == (1912, "")
    limit, reported = soft_limit_after(5000, 4096)
    assert limit == 4096
    assert "ulimit -n" in reported
    assert soft_limit_after(10, 4096)[0] == 522


def test_broker_may_have_as_many_files_open_as_its_hard_limit_allows() -> None:
    """Each segment of its logs is one. With the usual soft limit of 1,024 its directory would fail at about as many segments."""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 10_000
    assert soft_limit_after(1000, 10_000, has_logs=True) == (10_000, "")
    limit, reported = soft_limit_after(1000, 4096, has_logs=True)
    assert limit == 4096
    assert "each segment of a log is an open file" in reported
