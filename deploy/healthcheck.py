"""Whether a Dask scheduler (port 8787) or worker (8788) of this machine answers that it is well: exit status 0 or 1.

Usage: python healthcheck.py [PORT...]. Needs nothing but Python.
"""

import sys
import urllib.request


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=3) as answer:
            return bool(answer.read().strip() == b"ok")
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(not any(healthy(port) for port in map(int, sys.argv[1:] or (8787, 8788))))
