"""Pins `node.txt`, `operator.txt`, `pipeline.txt`, `connect.txt`, `dev.txt`, `release.txt` and `docs.txt`, with hashes, from what `pyproject.toml` asks for.

Run it with the oldest Python that is supported, on Linux: the pins are what the images install.
`dev.txt` is solved first and constrains the others, so that tests run what the images run.
The files name no host: where packages come from is the business of whoever installs them.
"""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYPROJECT = HERE.parent / "pyproject.toml"
EXTRAS = {
    "node": ("node", "object-store"),  # backups run in the image of the nodes
    "operator": ("operator",),
    "pipeline": ("pipeline",),
    "connect": ("connect",),
}
# Groups that run in environments of their own: nothing else constrains them.
ALONE = ("docs", "release")
OPTIONS = (
    "--quiet",
    "--generate-hashes",
    "--allow-unsafe",  # pip and setuptools too: everything in the environment is pinned
    "--strip-extras",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--no-emit-options",
    "--no-annotate",
)


def compile_file(target: str, sources: list[str], options: list[str]) -> None:
    command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, *options]
    command += [f"--output-file={HERE / target}", *sources]
    print(f"requirements/{target}", flush=True)
    subprocess.run(command, check=True, cwd=HERE.parent)


def main() -> None:
    groups = tomllib.loads(PYPROJECT.read_text())["dependency-groups"]
    upgrade = ["--upgrade"] if "--upgrade" in sys.argv[1:] else []
    with tempfile.TemporaryDirectory() as scratch:
        wanted = {name: Path(scratch) / f"{name}.in" for name in groups}
        for name, group in groups.items():
            wanted[name].write_text("\n".join(group) + "\n")
        every = [f"--extra={extra}" for extras in EXTRAS.values() for extra in extras]
        compile_file("dev.txt", ["pyproject.toml", str(wanted["dev"])], every + upgrade)
        for name in ALONE:
            compile_file(f"{name}.txt", [str(wanted[name])], upgrade)
    constraint = [f"--constraint={HERE / 'dev.txt'}"]
    for target, extras in EXTRAS.items():
        asked = [f"--extra={extra}" for extra in extras]
        compile_file(f"{target}.txt", ["pyproject.toml"], [*asked, *constraint])


if __name__ == "__main__":
    main()
