#!/usr/bin/env bash
# Runs a command again for as long as it says that it can go on: exit status 75, as dkernel ends when it was stopped,
# or when a scheduler or a worker failed it. What a job system does, where there is none.
#
#   deploy/again.sh dkernel train train --label label --out model.safetensors --checkpoint checkpoint --resume
#
# DKERNEL_TRIES sets how often at most (20), DKERNEL_PAUSE the seconds between two tries (5). A signal to this script
# goes to the command and ends both. The exit status is the command's last one.
set -uo pipefail

if [ $# -eq 0 ]; then
    echo "usage: again.sh COMMAND [ARGUMENTS...]" >&2
    exit 2
fi

child=""
stopped=""
stop() {
    stopped=1
    if [ -n "$child" ]; then kill -TERM "$child" 2>/dev/null; fi
}
trap stop TERM INT

tries="${DKERNEL_TRIES:-20}"
for ((try = 1; ; try++)); do
    "$@" &
    child=$!
    # A signal between these two lines found no child to pass it on to.
    if [ -n "$stopped" ]; then stop; fi
    # A signal ends a wait, and not what was waited for.
    while true; do
        wait "$child"
        status=$?
        kill -0 "$child" 2>/dev/null || break
    done
    child=""
    if [ "$status" -ne 75 ] || [ -n "$stopped" ] || [ "$try" -ge "$tries" ]; then exit "$status"; fi
    echo "again.sh: exit status 75, once more (try $((try + 1)) of $tries)" >&2
    sleep "${DKERNEL_PAUSE:-5}"
    if [ -n "$stopped" ]; then exit 75; fi
done
