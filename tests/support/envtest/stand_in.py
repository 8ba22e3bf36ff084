"""A trivial pod program to test the harness itself: serves HTTP on its pod's address, fails on order.

    GET /ready, /live     200, or 503 once `unready` / `dead` was asked for
    GET /file?path=P      the text of a file in the container
    GET /env              the environment as JSON
    GET /resolve?name=N   the addresses of a name
    GET /write            appends to DATA/ticks and fsyncs; exits 74 on an I/O error
    GET /exit?code=N&message=M    writes the termination message and exits
    GET /unready          readiness fails from now on

Usage: python -m support.envtest.stand_in --address A [--port 8080] [--data DIR]
"""

import argparse
import json
import os
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

_STORAGE_FAILED = 74


class StandIn(BaseHTTPRequestHandler):
    """Answers one request; class attributes are the process's state."""

    data: ClassVar[Path] = Path("/data")
    ready: ClassVar[bool] = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        arguments = dict(parse_qsl(url.query))
        answer = getattr(self, "_on_" + url.path.strip("/"))(**arguments)
        status = 503 if answer is None else 200
        body = (answer or "no").encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _on_ready(self) -> str | None:
        return "yes" if StandIn.ready else None

    def _on_live(self) -> str | None:
        return "yes"

    def _on_unready(self) -> str:
        StandIn.ready = False
        return "done"

    def _on_file(self, path: str) -> str:
        return Path(path).read_text()

    def _on_env(self) -> str:
        return json.dumps(dict(os.environ))

    def _on_resolve(self, name: str) -> str:
        found = socket.getaddrinfo(name, 80, family=socket.AF_INET, type=socket.SOCK_STREAM)
        return json.dumps(sorted(entry[4][0] for entry in found))

    def _on_write(self) -> str:
        try:
            with open(StandIn.data / "ticks", "a") as file:
                file.write("tick\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._on_exit(str(_STORAGE_FAILED), str(error))
        return (StandIn.data / "ticks").read_text()

    def _on_exit(self, code: str, message: str) -> str:
        Path("/dev/termination-log").write_text(message)
        os._exit(int(code))

    def log_message(self, format: str, *args: object) -> None:
        sys.stderr.write(format % args + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--data", type=Path, default=Path("/data"))
    arguments = parser.parse_args()
    StandIn.data = arguments.data
    ThreadingHTTPServer((arguments.address, arguments.port), StandIn).serve_forever()


if __name__ == "__main__":
    main()
