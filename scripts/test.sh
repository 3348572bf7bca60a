#!/usr/bin/env bash
# Everything a change must pass, on a bare machine: environment, installation, format, lint, types, tests.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

usage() {
    cat <<'EOF'
usage: scripts/test.sh [--all] [--lowest] [PYTEST ARGUMENTS...]

Makes a virtual environment, installs dkernel with its test extra, then runs ruff, mypy and pytest. Safe to run twice:
the environment is reused while pyproject.toml stays the same. Needs Python 3.11+ and a package index, nothing else.

  --all      the slow tests too
  --lowest   with the lowest version of every dependency (.venv-lowest); of the tests that start processes a few files
  --help     this text

Everything else goes to pytest (scripts/test.sh tests/kernels -k gaussian). The exit status is pytest's own, or 1 when
the tests pass and format, lint or types do not.

  DKERNEL_VENV     folder of the virtual environment (.venv, with --lowest .venv-lowest)
  DKERNEL_PYTHON   interpreter to make it with        DKERNEL_NO_UV=1   install with pip although uv is there
EOF
}

selection="not slow"
lowest=""
arguments=()
warnings=()
for argument in "$@"; do
    case "$argument" in
        -h | --help) usage && exit 0 ;;
        --all) selection="" ;;
        --lowest) lowest=1 ;;
        *) arguments+=("$argument") ;;
    esac
done

report=""
status=0
# One step: its name, then the command; a failure is remembered and the next step runs all the same.
step() {
    local name="$1" code
    shift
    say "$name"
    "$@" </dev/null
    code=$?
    if [ $code -eq 0 ]; then report="$report, $name ok"; else report="$report, $name FAILED ($code)"; fi
    return $code
}

if [ -n "$lowest" ]; then
    dkernel_lowest_environment "${DKERNEL_VENV:-$ROOT/.venv-lowest}"
    # Old versions warn about each other; what they warn about is not ours to mend.
    warnings=(-W default)
    cd "$ROOT" || exit 1
else
    dkernel_environment "${DKERNEL_VENV:-$ROOT/.venv}" test
    cd "$ROOT" || exit 1
    step format "$PY" -m ruff format --check . || status=1
    step lint "$PY" -m ruff check . || status=1
    step types "$PY" -m mypy dkernel || status=1
fi
cores="$(nproc 2>/dev/null || echo 2)" # before the next line: nproc takes OMP_NUM_THREADS for the number of cores
# Bytecode now: where Python may not write it, every process that a test starts would compile dkernel again.
"$PY" -m compileall -q dkernel
# A process of pytest for each core fills them: threads of BLAS and OpenMP in each would wait for one another at work.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# Tests of real processes come by themselves, two for each core: much of their time is waiting for processes to start,
# or to be missed. Only their files are read, since each process of pytest reads all that it is given.
pytest=("$PY" -m pytest "${warnings[@]+"${warnings[@]}"}")
if [ ${#arguments[@]} -eq 0 ]; then
    real=(tests/cli/test_train.py tests/leaves/transforms/test_clusters.py tests/streaming/execution/test_executors.py)
    if [ -z "$lowest" ]; then
        real=()
        while IFS= read -r file; do real+=("$file"); done < <(grep -rl --include='test_*.py' 'mark\.cluster' tests | sort)
    fi
    step tests "${pytest[@]}" -q -n "$cores" --dist worksteal -m "${selection:+$selection and }not cluster"
    tests=$?
    step "cluster tests" "${pytest[@]}" -q -n "$((2 * cores))" --dist loadfile \
        -m "${selection:+$selection and }cluster" "${real[@]}"
    cluster=$?
    if [ $tests -eq 0 ]; then tests=$cluster; fi
else
    step tests "${pytest[@]}" ${selection:+-m "$selection"} "${arguments[@]+"${arguments[@]}"}"
    tests=$?
fi
if [ $tests -ne 0 ]; then status=$tests; fi
if [ $status -eq 0 ]; then say "test.sh: PASSED:${report#,}"; else say "test.sh: FAILED:${report#,}"; fi
exit $status
