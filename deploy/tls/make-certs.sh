#!/usr/bin/env bash
# A private authority and the certificates of one cluster: whoever holds one of them may use it, nobody else.
#
#   deploy/tls/make-certs.sh DIR [NAME_OR_ADDRESS...]
#
# DIR/ca.pem        the authority: give it to every machine
# DIR/ca-key.pem    its key: keep it where this script ran, it is needed only to make more certificates
# DIR/cluster.pem   certificate and key for the scheduler and the workers, valid for the names given here
# DIR/client.pem    certificate and key for whoever runs dkernel
#
# Run again, it keeps what is there and makes what is missing: remove client.pem to get another one of the same
# authority. Needs openssl and nothing else. DKERNEL_CERT_DAYS sets how long they are valid (825).
set -euo pipefail

if [ $# -lt 1 ] || [ "$1" = "-h" ] || [ "$1" = "--help" ]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
    [ $# -ge 1 ]
    exit
fi

dir="$1"
shift
days="${DKERNEL_CERT_DAYS:-825}"
umask 077
mkdir -p "$dir"

# What a certificate is valid for: addresses and names are two kinds.
names="DNS:localhost,IP:127.0.0.1"
for name in "$@"; do
    case "$name" in
        *:*) kind=IP ;;
        *[!0-9.]*) kind=DNS ;;
        *.*.*.*) kind=IP ;;
        *) kind=DNS ;;
    esac
    names="$names,$kind:$name"
done

work="$(mktemp -d "$dir/.making-XXXXXX")"
trap 'rm -rf "$work"' EXIT

if [ ! -s "$dir/ca.pem" ] || [ ! -s "$dir/ca-key.pem" ]; then
    openssl req -x509 -newkey rsa:3072 -sha256 -nodes -days "$days" -subj "/CN=dkernel private authority" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -keyout "$work/ca-key.pem" -out "$work/ca.pem" 2>"$work/log" || { cat "$work/log" >&2 && exit 1; }
    rm -f "$dir/cluster.pem" "$dir/client.pem"
    mv "$work/ca-key.pem" "$work/ca.pem" "$dir/"
fi

# One file with certificate and key, signed by the authority.
make() {
    local role="$1" usage="$2"
    if [ -s "$dir/$role.pem" ]; then return; fi
    printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature,keyEncipherment\nextendedKeyUsage=%s\nsubjectAltName=%s\n' \
        "$usage" "$names" >"$work/extensions"
    {
        openssl req -new -newkey rsa:3072 -sha256 -nodes -subj "/CN=dkernel $role" \
            -keyout "$work/key.pem" -out "$work/request.pem" &&
            openssl x509 -req -sha256 -days "$days" -in "$work/request.pem" -extfile "$work/extensions" \
                -CA "$dir/ca.pem" -CAkey "$dir/ca-key.pem" -set_serial "0x$(openssl rand -hex 16)" -out "$work/cert.pem"
    } 2>"$work/log" || { cat "$work/log" >&2 && exit 1; }
    cat "$work/cert.pem" "$work/key.pem" >"$work/$role.pem"
    mv "$work/$role.pem" "$dir/$role.pem"
}

# A worker also connects, to the scheduler and to other workers.
make cluster serverAuth,clientAuth
make client clientAuth

echo "$dir: $(openssl x509 -in "$dir/cluster.pem" -noout -enddate | sed 's/notAfter=/valid until /')"
