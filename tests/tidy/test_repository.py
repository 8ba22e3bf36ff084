"""What the repository may hold: nothing of one machine, nothing of one package index."""

import re
import sys
import tomllib
from collections.abc import Iterator

import pytest

from support.source_tree import ROOT, files, imports, modules

# Letters in brackets keep this file from being a finding.
MACHINE_PATHS = re.compile(r"(?<![\w.])/[w]ork/|\.\./[s]hared|/tmp/[m]q")
HOSTS = re.compile(r"://|^\s*-(?:-index-url|-extra-index-url|i|f|-find-links|-trusted-host)\b| @ ")
IMPORTED_AS = {"pyyaml": "yaml", "google_re2": "re2"}
PINNED = sorted(path.name for path in (ROOT / "requirements").glob("*.txt"))


def lines_with(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    return (number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line))


def test_no_path_of_one_machine() -> None:
    found: list[str] = []
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{path.relative_to(ROOT)}:{line}" for line in lines_with(MACHINE_PATHS, text)]
    assert found == []


def test_path_of_one_machine_is_detected() -> None:
    folder = "/".join(["", "work", "main"])
    assert list(lines_with(MACHINE_PATHS, f"x\nsee {folder}\n")) == [2]
    assert not list(lines_with(MACHINE_PATHS, f"frame{folder}"))


def test_images_and_development_dependencies_are_pinned() -> None:
    assert {"dev.txt", "node.txt", "operator.txt", "pipeline.txt"} <= set(PINNED)


@pytest.mark.parametrize("name", PINNED)
def test_pins_name_no_host_and_every_pin_has_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert not list(lines_with(HOSTS, text))
    entries = text.replace("\\\n", "").splitlines()
    pins = [entry for entry in entries if entry.strip() and not entry.startswith("#")]
    assert pins
    assert [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


@pytest.mark.parametrize("line", ["--index-url https://x/simple", "x @ file", "-i http://x"])
def test_host_name_is_detected(line: str) -> None:
    assert list(lines_with(HOSTS, line))


def pinned_names(name: str) -> set[str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {match[1].lower() for match in re.finditer(r"^([\w.-]+)==", text, re.MULTILINE)}


def asked_for(extra: str) -> list[str]:
    """What `pyproject.toml` asks for in an image: that of the nodes has two extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
    return [*extras[extra], *(extras["object-store"] if extra == "node" else ())]


@pytest.mark.parametrize("extra", ["node", "operator", "pipeline", "dev"])
def test_pins_cover_the_requirements_of_pyproject(extra: str) -> None:
    """A dependency that was added without `make pins` would be missing in an image."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["dependency-groups"]["dev"] if extra == "dev" else asked_for(extra)
    names = {re.split(r"[<>=!~\[; ]", entry)[0].lower() for entry in wanted}
    assert names - pinned_names(extra) == set()


@pytest.mark.parametrize("extra", ["node", "operator", "pipeline"])
def test_image_has_all_dependencies_that_its_code_imports(extra: str) -> None:
    """Else a package that only came along with another one is missing some day."""
    wanted = asked_for(extra)
    named = {re.split(r"[<>=!~\[; ]", entry)[0].lower().replace("-", "_") for entry in wanted}
    named = {IMPORTED_AS.get(name, name) for name in named}
    found = {
        module.split(".")[0]
        for path in modules(f"{extra}/quorum_{extra}")
        for _, module in imports(path)
        if module.split(".")[0] not in sys.stdlib_module_names
    }
    assert found
    assert found - named - {"quorum_node", "quorum_operator", "quorum_pipeline"} == set()


@pytest.mark.parametrize("extra", ["node", "operator", "pipeline"])
def test_images_use_the_tested_versions(extra: str) -> None:
    pins = re.compile(r"^[\w.-]+==\S+", re.MULTILINE)
    tested = set(pins.findall((ROOT / "requirements" / "dev.txt").read_text()))
    shipped = set(pins.findall((ROOT / "requirements" / f"{extra}.txt").read_text()))
    assert shipped - tested == set()
