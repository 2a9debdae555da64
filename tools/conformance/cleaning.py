"""The two calls of the HTTP API with which AMQPStorm's tests clean up, answered over AMQP.

Any other call is answered with 404.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote

import pika

from .brokers import PORT


class Cleaning(BaseHTTPRequestHandler):
    def do_DELETE(self) -> None:
        match [unquote(part) for part in self.path.split("/")]:
            case ["", "api", "queues" | "exchanges" as kind, vhost, name]:
                delete(kind, vhost, name)
                self.send_response(204)
            case _:
                self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def delete(kind: str, vhost: str, name: str) -> None:
    """Delete a queue or an exchange, which need not exist."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", PORT, vhost))
    channel = connection.channel()
    if kind == "queues":
        channel.queue_delete(name)
    else:
        channel.exchange_delete(name)
    connection.close()


class HTTP:
    """A server of the calls during the context, at `url`."""

    def __enter__(self) -> "HTTP":
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Cleaning)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
