"""The limit of open files follows the connections that are allowed."""

import resource
import subprocess
import sys
from pathlib import Path

LOW = 256


def soft_limit_after(
    count: int, hard: int, *, has_logs: bool = False, nr_open: Path | None = None, first: str = ""
) -> tuple[int, str]:
    """In a process of its own that begins with LOW, after it has run `first`. `nr_open`: instead of the kernel's."""
    kernel = "" if nr_open is None else f", nr_open=Path({str(nr_open)!r})"
    program = "\n".join(
        (
            "import resource",
            "from pathlib import Path",
            "from quorum_node.server.process.file_limit import allow_connections",
            f"resource.setrlimit(resource.RLIMIT_NOFILE, ({LOW}, {hard}))",
            first,
            f"allow_connections({count}, has_logs={has_logs}{kernel})",
            "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])",
        )
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


def test_hard_limit_above_the_maximum_of_the_kernel_is_lowered_to_it(tmp_path: Path) -> None:
    """The maximum was lowered after the hard limit was set. The kernel refuses every call with a higher hard limit, whatever the soft one is."""
    maximum = tmp_path / "nr_open"
    maximum.write_text("2048\n")
    assert soft_limit_after(1000, 4096, nr_open=maximum) == (1512, "")
    limit, reported = soft_limit_after(1000, 4096, has_logs=True, nr_open=maximum)
    assert limit == 2048
    assert "each segment of a log is an open file" in reported
    assert soft_limit_after(1000, 4096, nr_open=tmp_path / "missing") == (1512, "")


def test_node_starts_if_its_limit_of_open_files_can_not_be_raised() -> None:
    """As under a seccomp profile that forbids it: the node says so, and serves as many connections as it can."""
    refuse = "def refused(*_): raise ValueError('not allowed to raise maximum limit')\nresource.setrlimit = refused"
    limit, reported = soft_limit_after(1400, 4096, first=refuse)
    assert limit == LOW
    assert "raising the limit to 1912 failed (not allowed to raise maximum limit)" in reported
