"""A server of a test on one port: each connection is served on its own thread."""

import socket
import threading
from collections.abc import Callable


def serve_each(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    """Return at once; `serve` is called with each connection until the listener is closed."""

    def accept() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
