#!/bin/sh
# Makes .venv from requirements/dev.txt, every file checked against its hash, with the project editable.
# A stamp of what went in makes a second call instant, and a new checkout takes what another one installed.
# Usage: requirements/venv.sh [python]
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
# What pip installed, by the hash of all it was made from. Hard links where they can be: they cost no room.
cache=${METADATAQUORUM_CACHE:-${HOME:-/nonexistent}/.cache/metadataquorum}/environment
kept=$cache/$({ "$python" -VV; "$python" -c 'import sys; print(sys.base_prefix)'; uname -m; cat requirements/dev.txt; } |
    sha256sum | cut -c1-16)

take_kept() {
    made_at=$(cat "$kept/.made-at" 2>/dev/null) || return 1
    cp -al "$kept" $venv 2>/dev/null || { rm -rf $venv && cp -a "$kept" $venv; } || return 1
    grep -lIrF "$made_at" $venv/bin $venv/pyvenv.cfg | xargs sed -i "s|$made_at|$(pwd)/$venv|g"
    usable
}

# Nobody misses it where it can't be kept: on a full disk, in a home that is not ours.
keep() {
    new=$cache/.new-$$
    mkdir -p "$cache" || return 0
    cp -al $venv "$new" || { rm -rf "$new" && cp -a $venv "$new"; } || { rm -rf "$new" && return 0; }
    echo "$(pwd)/$venv" >"$new/.made-at"
    mv -T "$new" "$kept" || rm -rf "$new"
    find "$cache" -mindepth 1 -maxdepth 1 ! -path "$kept" -mmin +60 -exec rm -rf {} +
}

usable() { [ -x $venv/bin/python ] && [ "$($venv/bin/python -VV)" = "$("$python" -VV)" ] &&
    grep -qF "$(pwd)/$venv/bin/python" $venv/bin/pip 2>/dev/null; }
export PIP_DISABLE_PIP_VERSION_CHECK=1
fresh=no
if ! usable && { rm -rf $venv; ! take_kept; }; then
    rm -rf $venv
    fresh=yes
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "venv: this Python has no 'venv' or 'ensurepip' module." \
            "      On Debian or Ubuntu: apt-get install python3-venv" \
            "      On Fedora: dnf install python3-pip"
    "$python" -m venv $venv
fi
echo "venv: installing requirements/dev.txt into $venv"
$venv/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
[ $fresh = no ] || keep 2>/dev/null || true
# hatchling is in dev.txt, so that building the editable install downloads nothing.
$venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
echo "$wanted" >$stamp
echo "venv: ready after $(($(date +%s) - started)) s"
