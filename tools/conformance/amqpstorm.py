"""AMQPStorm: the functional tests of its sdist."""

from .brokers import HTTP_PORT, TLS_PORT, URL, Broker
from .python import SdistSuite


class AMQPStorm(SdistSuite):
    name = "AMQPStorm"
    version = "2.11.1"
    what = "`amqpstorm/tests/functional`"
    sha256 = "09259d0fc5f188a8c580c8237eeba2b613046ac49842268c8dd77df43288a7c3"
    tests = ("amqpstorm/tests/functional",)
    extra = ("requests==2.32.5",)
    left_out = (("amqpstorm/tests/unit", "opens no connection"),)
    explained = tuple(
        (
            f"amqpstorm.tests.functional.management.test_api.ApiFunctionalTests::test_api_{name}",
            "expects the name of the author's node",
        )
        for name in ("cluster_name", "node")
    )

    def environment(self, broker: Broker) -> dict[str, str]:
        return {
            "AMQP_HOST": "127.0.0.1",
            "AMQP_USERNAME": "guest",
            "AMQP_PASSWORD": "guest",
            "AMQP_URI": f"{URL}/%2F",
            "AMQP_HTTP_URL": f"http://127.0.0.1:{HTTP_PORT}",
            "AMQP_SSL_HOST": "localhost",
            "AMQP_SSL_URI": f"amqps://guest:guest@localhost:{TLS_PORT}/%2F",
            "AMQP_CAFILE": str(broker.certificates / "ca_certificate.pem"),
            "AMQP_CERTFILE": str(broker.certificates / "client_certificate.pem"),
            "AMQP_KEYFILE": str(broker.certificates / "client_key.pem"),
        }
