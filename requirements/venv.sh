#!/bin/sh
# Makes .venv from requirements/dev.txt, every file checked against its hash, with the project editable.
# A stamp of what went in makes a second call instant. Usage: requirements/venv.sh [python]
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
venv=.venv
stamp=$venv/.stamp

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

command -v "$python" >/dev/null || fail "venv: $python not found; install Python 3.11 or newer."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "venv: Python 3.11 or newer is needed, $python is $("$python" -V)." \
        "      Name another one with: make venv PYTHON=python3.12"

# The path is part of it: a moved environment does not work.
fingerprint() {
    { pwd; "$python" -VV; cat requirements/dev.txt requirements/venv.sh pyproject.toml; } |
        sha256sum | cut -d' ' -f1
}

# Two calls at once would install over each other.
if command -v flock >/dev/null && [ -z "${VENV_LOCKED:-}" ]; then
    VENV_LOCKED=1 exec flock "${TMPDIR:-/tmp}/venv-$(pwd | sha256sum | cut -c1-16).lock" "$0" "$python"
fi

wanted=$(fingerprint)
if [ "$(cat $stamp 2>/dev/null || true)" = "$wanted" ]; then
    exit 0
fi

started=$(date +%s)
usable() { [ -x $venv/bin/python ] && [ "$($venv/bin/python -VV)" = "$("$python" -VV)" ] &&
    grep -qF "$(pwd)/$venv/bin/python" $venv/bin/pip 2>/dev/null; }
if ! usable; then
    rm -rf $venv
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "venv: this Python has no 'venv' or 'ensurepip' module." \
            "      On Debian or Ubuntu: apt-get install python3-venv" \
            "      On Fedora: dnf install python3-pip"
    "$python" -m venv $venv
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "venv: installing requirements/dev.txt into $venv"
$venv/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
# hatchling is in dev.txt, so that building the editable install downloads nothing.
$venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
echo "$wanted" >$stamp
echo "venv: ready after $(($(date +%s) - started)) s"
