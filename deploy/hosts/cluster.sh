#!/usr/bin/env bash
# A cluster on machines that ssh reaches: a scheduler on the first of them, workers on all.
#
#   deploy/hosts/cluster.sh start HOSTS     HOSTS has one name a line; prints the address for --scheduler
#   deploy/hosts/cluster.sh stop HOSTS      ends what it started there, and nothing else
#
# dkernel must be installed on each machine, in the same versions, and the data be seen under the same names.
#   DKERNEL_PATH     folder of the programs dask and dkernel there (default: what ssh finds)
#   DKERNEL_PORT     of the scheduler (8786)       DKERNEL_NWORKERS   processes on each machine (one a core)
#   DKERNEL_MEMORY   of each process (a share of the machine's)
#   DKERNEL_CERTS    folder with ca.pem and cluster.pem there (made by ../tls/make-certs.sh): everything encrypted
#   DKERNEL_SSH      the command to reach a machine (ssh -o BatchMode=yes)
set -euo pipefail

usage() {
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
}
if [ $# -ne 2 ]; then usage; fi
action="$1"
mapfile -t hosts < <(grep -v '^[[:space:]]*\(#\|$\)' "$2")
if [ ${#hosts[@]} -eq 0 ]; then
    echo "cluster.sh: $2 names no machine" >&2
    exit 1
fi

read -r -a ssh <<<"${DKERNEL_SSH:-ssh -o BatchMode=yes}"
path="${DKERNEL_PATH:+$DKERNEL_PATH/}"
port="${DKERNEL_PORT:-8786}"
protocol=tcp
tls=""
if [ -n "${DKERNEL_CERTS:-}" ]; then
    protocol=tls
    tls="--tls-ca-file $DKERNEL_CERTS/ca.pem --tls-cert $DKERNEL_CERTS/cluster.pem --tls-key $DKERNEL_CERTS/cluster.pem"
fi
address="$protocol://${hosts[0]}:$port"
# On each machine: where the process numbers and the logs are kept.
run=".dkernel-cluster-$port"

on() { "${ssh[@]}" "$1" "$2" </dev/null; }

# Starts a program there that outlives the connection. A process group of its own, so that stop reaches all of it.
start() {
    local host="$1" name="$2" command="$3"
    on "$host" "mkdir -p $run && cd $run && { setsid nohup $command >$name.log 2>&1 & echo \$! >$name.pid; }"
}

case "$action" in
    start)
        start "${hosts[0]}" scheduler \
            "${path}dask scheduler --host $protocol://${hosts[0]} --port $port --dashboard-address :0 $tls"
        for host in "${hosts[@]}"; do
            # A worker listens on its own address, so that the others reach it.
            start "$host" "worker-$host" "${path}dask worker $address --host $protocol://$host \
                --nworkers ${DKERNEL_NWORKERS:-auto} --nthreads 1 --memory-limit ${DKERNEL_MEMORY:-auto} --no-dashboard $tls"
        done
        echo "$address"
        ;;
    stop)
        for host in "${hosts[@]}"; do
            on "$host" "cd $run 2>/dev/null || exit 0
                for file in worker-$host.pid scheduler.pid; do
                    if [ -s \$file ]; then kill -s TERM -- -\$(cat \$file) 2>/dev/null; rm -f \$file; fi
                done; true"
        done
        ;;
    *) usage ;;
esac
