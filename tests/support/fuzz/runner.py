"""Runs one target for some seconds in a process of its own: `python -m support.fuzz.runner NAME SECONDS DIR`.

Guided by coverage where atheris (libFuzzer) is installed; elsewhere inputs of the corpus are mutated at
random. Exit code 0: no problems found. A finding is an exception, an input that takes longer than
HANG_SECONDS, or one that takes more than MEMORY_BYTES of memory; the input is left in DIR.

Memory is the peak of the process: one input may not raise it by more than a connection may cost. The
collector of the fuzzer's own findings grows slowly and is not blamed on an input.
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

MEMORY_BYTES = 64 << 20
HANG_SECONDS = 10
MAX_INPUT_BYTES = 64 << 10
WARM_UP_INPUTS = 50


def main() -> None:
    """See the module."""
    name, seconds, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    corpus = directory / "corpus"
    try:
        import atheris
    except ImportError:
        _mutate(name, seconds, corpus, directory)
        return
    with atheris.instrument_imports(include=["quorum_node"]):
        from support.fuzz.targets import RUNNABLE
    guarded = _guarded(RUNNABLE[name])
    arguments = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-timeout={HANG_SECONDS}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-artifact_prefix={directory}/found-",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
        str(corpus),
    ]
    atheris.Setup(arguments, guarded)
    atheris.Fuzz()


def _reset_peak() -> None:
    """Reset the peak of resident memory, so that an earlier peak does not hide a later one."""
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")


def _peak_bytes() -> int:
    """Not getrusage: it includes the peak from before this process executed the fuzzer."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def _guarded(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, and what one input did to the memory."""
    tried = 0

    def one(data: bytes) -> None:
        nonlocal tried
        tried += 1
        _reset_peak()
        before_bytes = _peak_bytes()
        target(data)
        grown_bytes = _peak_bytes() - before_bytes
        if tried > WARM_UP_INPUTS and grown_bytes > MEMORY_BYTES:
            raise MemoryError(f"one input of {len(data)} bytes took {grown_bytes} bytes")

    return one


def _mutate(name: str, seconds: int, corpus: Path, directory: Path) -> None:
    """Without coverage: flips, cuts and splices of the corpus."""
    from support.fuzz.targets import RUNNABLE

    rng = random.Random(20)
    guarded = _guarded(RUNNABLE[name])
    seeds = [path.read_bytes() for path in sorted(corpus.iterdir())]
    until, tried = time.monotonic() + seconds, 0
    # On a busy machine a few seconds may not do for as many inputs as there are seeds.
    while time.monotonic() < until or tried < len(seeds):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(0, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255))
        if rng.random() < 0.3:
            other = rng.choice(seeds)
            data = data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]
        began = time.monotonic()
        try:
            guarded(bytes(data))
        except BaseException:
            (directory / "found-crash").write_bytes(data)
            raise
        if time.monotonic() - began > HANG_SECONDS:
            (directory / "found-timeout").write_bytes(data)
            raise TimeoutError(f"an input of {len(data)} bytes took too long")
        tried += 1
    print(f"stat::number_of_executed_units: {tried}", file=sys.stderr)


if __name__ == "__main__":
    main()
