"""Docker's calls with which the suites of aio-pika and aiormq start RabbitMQ: each container is the suite's broker."""

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from .brokers import PORT, TLS_PORT, Broker

CONTAINER = {"NetworkSettings": {"Ports": {f"{port}/tcp": [{"HostPort": str(port)}] for port in (PORT, TLS_PORT)}}}


class Docker:
    """A server of the calls during the context, at `url`.

    A container that is killed stays down until it is started or removed: the next container is the same broker. Each
    command in a container is one of rabbitmqctl, and has ended when its start is answered.
    """

    def __init__(self, broker: Broker) -> None:
        commands: list[list[str]] = []
        statuses: dict[int, int] = {}

        class Calls(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                match self.path.split("/")[1:]:
                    case ["exec", command, "json"]:
                        self.answer(200, {"Running": False, "ExitCode": statuses[int(command)]})
                    case _:
                        self.answer(200, CONTAINER)

            def do_DELETE(self) -> None:
                broker.start()
                self.answer(204)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                match self.path.partition("?")[0].split("/")[1:]:
                    case ["containers", "create"]:
                        self.answer(201, {"Id": "broker"})
                    case ["containers", _, "start"]:
                        broker.start()
                        self.answer(204)
                    case ["containers", _, "kill"]:
                        broker.kill()
                        self.answer(204)
                    case ["containers", _, "exec"]:
                        commands.append(json.loads(body)["Cmd"][1:])
                        self.answer(201, {"Id": str(len(commands) - 1)})
                    case ["exec", command, "start"]:
                        program = broker.rabbitmqctl()
                        ended = subprocess.run([program, *commands[int(command)]], capture_output=True)
                        statuses[int(command)] = ended.returncode
                        self.answer(200)
                    case ["images", "create"]:
                        self.answer(200)
                    case _:
                        self.answer(501)

            def answer(self, status: int, body: object = None) -> None:
                data = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Calls)
        self.url = f"tcp://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "Docker":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
