"""An HTTP server that answers what it is told to, for whoever asks."""

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

Answers = dict[str, tuple[int, object]]
"""Status and document by method and path."""


class Scripted(http.server.BaseHTTPRequestHandler):
    """Of one that is made for each server, with `answers`; those that came are in `asked`."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[Answers] = {}
    asked: ClassVar[list[str]] = []

    def answer(self) -> None:
        size = int(self.headers.get("content-length", 0))
        self.rfile.read(size)
        request = f"{self.command} {self.path}"
        self.asked.append(request)
        status, document = self.answers.get(request, (404, {"error": "Object Not Found", "reason": "Not Found"}))
        octets = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets)
        self.close_connection = True  # which the client is not told

    do_GET = do_PUT = do_DELETE = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        """To nobody."""


class Quiet(http.server.HTTPServer):
    """Says nothing of clients who leave."""

    def handle_error(self, request: object, client_address: object) -> None: ...


@contextmanager
def scripted(answers: Answers, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """The URL of a server that answers so, with TLS where there is a context, and what it was asked."""
    asked: list[str] = []
    overview: Answers = {"GET /api/overview?columns=node": (200, {"node": "rabbit@far"})}
    handler = type("Told", (Scripted,), {"answers": overview | answers, "asked": asked})
    server = Quiet(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' * (context is not None)}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
