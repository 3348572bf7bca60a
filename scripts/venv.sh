# Sourced by test.sh and quickstart.sh: one virtual environment with dkernel in it, made once and then only looked at.
#
#   dkernel_environment DIR EXTRA     leaves the interpreter in $PY, its programs on PATH; EXTRA is "" or "test"
#   dkernel_lowest_environment DIR    the same with the lowest version of every direct dependency
#
# A stamp inside DIR holds a hash of pyproject.toml, the checkout's path and the interpreter: while it matches, nothing
# is installed and no index is asked. The stamp is written last, so an interrupted installation is done again.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '== %s\n' "$*" >&2; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

supported() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Path of the first Python that is new enough; $1, when given, is preferred.
find_python() {
    local name
    for name in "${DKERNEL_PYTHON:-}" "$@" python3 python3.14 python3.13 python3.12 python3.11 python; do
        if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 && supported "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

# uv trusts its own list of authorities unless told otherwise; pip, and a company's mirror, go by the machine's.
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}" UV_NATIVE_TLS="${UV_NATIVE_TLS:-true}"

find_uv() {
    if [ -z "${DKERNEL_NO_UV:-}" ]; then command -v uv 2>/dev/null; fi
}

enter() {
    PY="$(cd "$1" && pwd)/bin/python"
    export PATH="${PY%/python}:$PATH"
}

# An environment at $1 made with the interpreter $2; one that works is left alone, a broken one is made again.
make_environment() {
    local dir="$1" python="$2" uv
    if supported "$dir/bin/python"; then return 0; fi
    if [ -e "$dir" ] && [ ! -f "$dir/pyvenv.cfg" ] && [ -n "$(ls -A "$dir" 2>/dev/null)" ]; then
        die "$dir is not a virtual environment and not empty; remove it or set DKERNEL_VENV to another folder"
    fi
    say "making a virtual environment in $dir with $python"
    uv="$(find_uv || true)"
    # Debian's python3 comes without ensurepip: uv, or a pip outside the environment, then does its work.
    "$python" -m venv --clear "$dir" >/dev/null 2>&1 ||
        { [ -n "$uv" ] && "$uv" venv --quiet --clear --python "$python" "$dir"; } ||
        "$python" -m venv --clear --without-pip "$dir" ||
        die "$python cannot make a virtual environment; install its venv module (Debian: apt install python3-venv)"
}

# pip (or, when it is there, uv) into the environment at $1. uv does not read pip's settings: where it fails, pip tries.
install_into() {
    local python="$1/bin/python" uv
    shift
    uv="$(find_uv || true)"
    if [ -n "$uv" ]; then
        # Bytecode now, as pip makes it: where Python may not write it, every process would compile every import again.
        if "$uv" pip install --quiet --compile-bytecode --python "$python" "$@"; then return 0; fi
        say "uv could not install; trying pip"
    fi
    if "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m pip install --quiet --disable-pip-version-check "$@"
    else
        "$(find_python)" -m pip --python "$python" install --quiet --disable-pip-version-check "$@"
    fi
}

fingerprint() {
    "$1/bin/python" - "$ROOT" <<'EOF'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
print(hashlib.sha256((root / "pyproject.toml").read_bytes() + f"{root} {sys.version}".encode()).hexdigest())
EOF
}

stamped() { [ "$(cat "$1/dkernel-$2.stamp" 2>/dev/null)" = "$(fingerprint "$1")" ]; }

dkernel_environment() {
    local dir="$1" extra="$2" python name
    python="$(find_python)" || die "Python 3.11 or newer is needed and none is on PATH; set DKERNEL_PYTHON to one"
    make_environment "$dir" "$python"
    enter "$dir"
    if stamped "$dir" "${extra:-base}"; then return 0; fi
    say "installing dkernel${extra:+[$extra]} into $dir"
    # The tests need many packages: uv finds versions that go together in seconds, where pip may try for many minutes.
    if [ "$extra" = test ] && [ -z "${DKERNEL_NO_UV:-}" ] && [ -z "$(find_uv || true)" ]; then
        "$PY" -m pip install --quiet --disable-pip-version-check uv || say "no uv to be had; pip does the work"
    fi
    install_into "$dir" --editable "$ROOT${extra:+[$extra]}" ||
        die "the installation failed; the lines above say why. A package index must be reachable (pip config list)"
    for name in base $extra; do fingerprint "$dir" >"$dir/dkernel-$name.stamp"; done
}

# The lower ends are stated for Python 3.11: later interpreters have no wheels of some of these versions.
dkernel_lowest_environment() {
    local dir="$1" python uv
    python="$(find_python python3.11)" || die "Python 3.11 is needed and none is on PATH; set DKERNEL_PYTHON to one"
    make_environment "$dir" "$python"
    enter "$dir"
    if stamped "$dir" lowest; then return 0; fi
    uv="$(find_uv || true)"
    if [ -z "$uv" ]; then
        "$PY" -m pip install --quiet --disable-pip-version-check uv || die "uv is needed for --lowest and pip cannot get it"
        uv="$dir/bin/uv"
    fi
    say "installing the lowest versions of the dependencies into $dir"
    "$uv" pip install --quiet --python "$PY" --resolution lowest-direct --editable "$ROOT[test]" ||
        die "the lowest versions cannot be installed together; raise the bound that uv names above in pyproject.toml"
    fingerprint "$dir" >"$dir/dkernel-lowest.stamp"
}
