"""`make release`: builds all files of a release from the checked-out commit into one folder.

    python -m release [--output build/release] [--no-images]

The same commit gives the same bytes: times are those of the commit, entries of archives are sorted, owners are omitted.
Uncommitted files are not included. Nothing is published.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from release import bills, chart_package, checksums, images, packages, versions
from release.source import ROOT, Source, checked_out
from release.stop import ReleaseError

BEGAN = time.monotonic()


def say(what: str) -> None:
    """Print a line of progress with the elapsed seconds."""
    print(f"{time.monotonic() - BEGAN:6.1f} s  {what}", file=sys.stderr, flush=True)


def make(source: Source, output: Path, *, with_images: bool) -> None:
    """Fill an empty folder. Raises ReleaseError."""
    version = versions.one_version(source.folder)
    say(f"metadataquorum {version}, commit {source.commit[:12]}")
    say("wheel and source archive")
    packages.build(source, output)
    say("chart")
    chart_package.build(source, output, version)
    for definition in sorted((source.folder / "crds").glob("*.yaml")):
        shutil.copyfile(definition, output / definition.name)
    shutil.copyfile(source.folder / "manifests" / "install.yaml", output / "install.yaml")
    found: list[images.Archive] = []
    if with_images:
        say("images: built where they changed (minutes, the first time)")
        for name in images.NAMES:
            found.append(images.archive(name, version, source.time_s, output))
            say(f"{found[-1].path.name} {found[-1].digest}")
    say("bills of materials")
    bills.build(source, output, version, found)
    checksums.write(output)
    say(f"{len(list(output.iterdir()))} files in {output}")


def main() -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--images", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    try:
        with checked_out() as source:
            for changed in source.left_out:
                say(f"not committed, so not in the release: {changed}")
            make(source, options.output.resolve(), with_images=options.images)
    except ReleaseError as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
