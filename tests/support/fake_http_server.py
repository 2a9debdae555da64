"""An HTTP server with a fixed response for each request."""

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from .polling import WITHIN_S

Answers = dict[str, tuple[int, object]]
"""The status and the document of a response, by method and path."""


class Handler(http.server.BaseHTTPRequestHandler):
    """The handler of the requests of one server: it responds with `answers`, and adds each request to `asked`."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[Answers] = {}
    asked: ClassVar[list[str]] = []

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        request = f"{self.command} {self.path}"
        self.asked.append(request)
        status, document = self.answers.get(request, (404, {"error": "Object Not Found", "reason": "Not Found"}))
        encoded = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)
        self.close_connection = True

    do_GET = do_PUT = do_DELETE = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Server(http.server.HTTPServer):
    """A server that reports no errors of connections."""

    def handle_error(self, request: object, client_address: object) -> None: ...


@contextmanager
def fake_http_server(answers: Answers, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """Run a server with these responses, by TLS if there is a context; give its URL and the list of its requests."""
    asked: list[str] = []
    overview: Answers = {"GET /api/overview?columns=node": (200, {"node": "rabbit@far"})}
    handler = type("TableHandler", (Handler,), {"answers": overview | answers, "asked": asked})
    server = Server(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http{'s' * (context is not None)}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join(WITHIN_S)
        server.server_close()
