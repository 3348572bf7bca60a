"""A web server of the files of a folder."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def serve(folder: Path, ranges: str = "bytes") -> Iterator[str]:
    """The host and port of a server that has ranges ("bytes"), says that it has none, or does not say so ("silent").

    One that is "unsized" does not say either how many bytes a file has, "bare" not even its version, and "cut" breaks
    off in the middle of each.
    """

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = folder / self.path.partition("?")[0].lstrip("/")
            whole = path.read_bytes() if path.is_file() else b""
            first, _, last = self.headers.get("Range", "bytes=-").removeprefix("bytes=").partition("-")
            part = whole[int(first) : int(last or len(whole)) + 1] if ranges == "bytes" and first else whole
            headers = {"Content-Length": len(part), "ETag": f'"{len(whole)}"'}
            headers |= {"Content-Range": f"bytes {first}-{last}/{len(whole)}"} if part is not whole else {}
            headers |= {"Accept-Ranges": ranges} if ranges in ("bytes", "none") else {}
            if ranges in ("unsized", "bare"):
                del headers["Content-Length"]
            if ranges == "bare":
                del headers["ETag"]
            self.send_response(404 if not path.is_file() else 206 if part is not whole else 200)
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part[: len(part) // 2] if ranges == "cut" else part)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
