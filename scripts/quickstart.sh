#!/usr/bin/env bash
# From a bare checkout to a kernel machine trained on data larger than the memory it was given, in two minutes or so.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

usage() {
    cat <<'EOF'
usage: scripts/quickstart.sh [--rows N | --small] [--features N] [--workers N] [--memory-limit SIZE]

Installs dkernel in a virtual environment, makes a nonlinear two-class data set whose best possible accuracy is known,
trains a Gaussian-kernel classifier on it through the command line, scores other rows with it, and prints accuracy
beside a linear model's, rows per second and peak memory. Safe to run twice: what is there is not made again.
Needs Python 3.11+, a package index and 2 GB of disk.

  --rows N             rows to train on (12000000: 1.34 GB, more than all workers together get)
  --small              1000000 rows, for a first look
  --features N         features (28)
  --workers N          worker processes (2)
  --memory-limit SIZE  memory of each worker (512MiB)
  --help               this text

  DKERNEL_QUICKSTART   folder of data and results (.quickstart)
  DKERNEL_VENV         folder of the virtual environment (.venv)
  DKERNEL_PYTHON       interpreter to make it with        DKERNEL_NO_UV=1   install with pip although uv is there
EOF
}

rows=12000000 features=28 workers=2 memory=512MiB
while [ $# -gt 0 ]; do
    case "$1" in
        -h | --help) usage && exit 0 ;;
        --small) rows=1000000 && shift && continue ;;
        --rows | --features | --workers | --memory-limit) [ $# -gt 1 ] || die "$1 needs a value" ;;
        *) usage >&2 && die "unknown option $1" ;;
    esac
    case "$1" in
        --rows) rows="$2" ;;
        --features) features="$2" ;;
        --workers) workers="$2" ;;
        --memory-limit) memory="$2" ;;
    esac
    shift 2
done
case "$rows" in '' | *[!0-9]*) die "--rows $rows is not a number; write 12000000" ;; esac
[ "$rows" -ge 10 ] || die "--rows $rows is too few; 10 at least"

dkernel_environment "${DKERNEL_VENV:-$ROOT/.venv}" ""
# The commands below are shown as they are run: short paths make them worth copying.
[ -z "${DKERNEL_QUICKSTART:-}" ] || { mkdir -p "$DKERNEL_QUICKSTART" && place="$(cd "$DKERNEL_QUICKSTART" && pwd)"; }
cd "$ROOT"
place="${place:-.quickstart}"
mkdir -p "$place/notes"

# One step: a name for its note, then the command, which is shown.
run() {
    local name="$1"
    shift
    say "$(printf '%q ' "$@")"
    "$PY" scripts/measured.py "$place/notes/$name.json" "$@" || die "the last command above failed"
}

begin=$(date +%s)
make=(python scripts/make_data.py --features "$features" --seed 0)
run data "${make[@]}" --rows "$rows" --out "$place/train"
run test "${make[@]}" --rows $((rows / 10)) --first-row "$rows" --out "$place/test"

options=(--workers "$workers" --memory-limit "$memory" --json)
run train dkernel train "$place/train" --label label --out "$place/model.safetensors" --overwrite \
    --kernel 'Gaussian(gamma="auto")' --n-components 1024 --seed 0 "${options[@]}"
# A complete output is not written again; it goes first, so that the time is that of scoring.
rm -rf "$place/scores"
run score dkernel score "$place/model.safetensors" "$place/test" --out "$place/scores" "${options[@]}"
run evaluate dkernel evaluate "$place/model.safetensors" "$place/test" --label label "${options[@]}"
run linear python scripts/linear_baseline.py "$place/train" "$place/test"

say "quickstart.sh: done in $(($(date +%s) - begin)) s after installation; model and scores are in $place"
"$PY" scripts/quickstart_table.py "$place/notes"
