"""`make docs`: builds the site into build/site, with warnings as errors, and checks that it loads nothing from elsewhere.

Sphinx is installed once into an environment of its own (build/docs-environment) from requirements/docs.txt, so that
`make test` does not pay for it. Ends with code 1 and what is wrong.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "site"
ENVIRONMENT = ROOT / "build" / "docs-environment"
PINS = ROOT / "requirements" / "docs.txt"
# What a page loads by itself. A link that a reader follows may lead anywhere.
_ASSET = re.compile(
    r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["']((?:https?:)?//[^"']+)"""
    r"""|@import\s+(?:url\()?["']?((?:https?:)?//[^"')]+)|\burl\(["']?((?:https?:)?//[^"')]+)"""
)


def main() -> int:
    _environment()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [str(ENVIRONMENT / "bin" / "sphinx-build"), "--quiet", "-b", "html"]
    command += ["--fail-on-warning", "--keep-going", "--conf-dir", str(DOCS / "_site")]
    command += ["--doctree-dir", str(ROOT / "build" / "site-doctrees"), str(DOCS), str(SITE)]
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        return 1
    foreign = foreign_assets(SITE)
    for each in foreign:
        print(f"docs: loads from another host: {each}", file=sys.stderr)
    if foreign:
        return 1
    print(f"docs: {sum(1 for _ in SITE.rglob('*.html'))} pages, begin at {SITE / 'index.html'}")
    return 0


def foreign_assets(folder: Path) -> list[str]:
    """`file: address` for each script, style, font or picture that a page or style sheet below `folder` loads from a host."""
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".html", ".css"):
            continue
        for match in _ASSET.finditer(path.read_text()):
            address = next(filter(None, match.groups()))
            found.append(f"{path.relative_to(folder)}: {address}")
    return found


def _environment() -> None:
    stamp = ENVIRONMENT / "pins"
    wanted = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("docs: installing requirements/docs.txt into build/docs-environment", flush=True)
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    python = str(ENVIRONMENT / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--require-hashes", "-r", str(PINS)], check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    sys.exit(main())
