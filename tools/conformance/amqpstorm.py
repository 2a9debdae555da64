"""AMQPStorm: the functional tests of its sdist."""

from pathlib import Path

from .brokers import PORT, TLS_PORT, Broker
from .cleaning import HTTP
from .python import SdistSuite
from .results import Case


class AMQPStorm(SdistSuite):
    name = "AMQPStorm"
    version = "2.11.1"
    sha256 = "09259d0fc5f188a8c580c8237eeba2b613046ac49842268c8dd77df43288a7c3"
    tests = ("amqpstorm/tests/functional",)
    options = (
        "--ignore=amqpstorm/tests/functional/management",
        "--ignore=amqpstorm/tests/functional/test_web_based.py",
    )
    extra = ("requests==2.32.5",)
    left_out = (
        ("amqpstorm/tests/unit", "opens no connection"),
        ("amqpstorm/tests/functional/{management,test_web_based.py}", "speak to the HTTP API, which is not there yet"),
    )
    http_url = ""

    def environment(self, broker: Broker) -> dict[str, str]:
        return {
            "AMQP_HOST": "127.0.0.1",
            "AMQP_USERNAME": "guest",
            "AMQP_PASSWORD": "guest",
            "AMQP_URI": f"amqp://guest:guest@127.0.0.1:{PORT}/%2F",
            "AMQP_HTTP_URL": self.http_url,
            "AMQP_SSL_HOST": "localhost",
            "AMQP_SSL_URI": f"amqps://guest:guest@localhost:{TLS_PORT}/%2F",
            "AMQP_CAFILE": str(broker.certificates / "ca_certificate.pem"),
            "AMQP_CERTFILE": str(broker.certificates / "client_certificate.pem"),
            "AMQP_KEYFILE": str(broker.certificates / "client_key.pem"),
        }

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        with HTTP() as http:
            self.http_url = http.url
            return super().run(folder, broker)
