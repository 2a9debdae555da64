"""Frameworks whose suites differ in little more than their names."""

import os
import shutil
from pathlib import Path

from .brokers import URL, Broker
from .python import RepositorySuite, SdistSuite
from .results import Case

ASYNC = ("pytest==9.0.3", "pytest-timeout==2.4.0", "pytest-asyncio==1.3.0", "pytest-rerunfailures==16.7")


def copy_certificates(broker: Broker, folder: Path, authority: str, client: str, key: str) -> None:
    """Copy the certificates of authority and client, and the key of that, to the names that a suite expects."""
    folder.mkdir(exist_ok=True)
    for ours, theirs in (("ca_certificate", authority), ("client_certificate", client), ("client_key", key)):
        shutil.copy(broker.certificates / f"{ours}.pem", folder / theirs)


class FastStream(RepositorySuite):
    name = "FastStream"
    version = "0.7.4"
    what = "`tests -m rabbit`"
    repository = "https://github.com/ag2ai/faststream"
    commit = "f080d35308997c77398feb43763fdb0e7074a255"
    features = "[rabbit,kafka,confluent,nats,redis,mqtt,cli,otel,prometheus]"
    pytest = ASYNC
    extra = (
        "dirty-equals==0.11", "httpx==0.28.1", "freezegun==1.5.5", "fastapi==0.140.0", "pydantic-settings==2.11.0",
        "PyYAML==6.0.3", "msgspec", "uvicorn==0.38.0", "psutil==7.2.2", "email-validator==2.3.0",
    )  # fmt: skip
    tests = ("tests",)
    options = ("-m", "rabbit")
    settings = "pyproject.toml"
    left_out = (("tests not marked `rabbit`", "for other brokers"),)
    explained = tuple(
        (f"tests.{file}::", "Warren has no streams")
        for file in ("docs.rabbit.subscription.test_stream", "examples.rabbit.test_stream")
    )


class Dramatiq(RepositorySuite):
    name = "dramatiq"
    version = "2.2.0"
    what = "`tests/test_rabbitmq.py`"
    repository = "https://github.com/Bogdanp/dramatiq"
    commit = "5a1f74eabe3a4c5ddd54a78611d8da34e4013249"
    features = "[rabbitmq,redis,memcached]"
    tests = ("tests/test_rabbitmq.py",)
    left_out = (("the other files of tests", "use no broker, Redis or memcached"),)

    def environment(self, broker: Broker) -> dict[str, str]:
        return {"RABBITMQ_USERNAME": "guest", "RABBITMQ_PASSWORD": "guest"}


class Nameko(SdistSuite):
    name = "nameko"
    version = "2.14.1"
    what = "`test`"
    sha256 = "2753578bb4dc6b92801aea334d2930b97dfb74486e705edd69198306a9468c88"
    pytest = ("pytest==7.4.4", "pytest-timeout==2.4.0", "pytest-rerunfailures==15.1")
    extra = (
        "pytest-eventlet==1.0.0", "setuptools==75.8.0", "websocket-client==0.48.0", "werkzeug==2.0.3", "kombu==5.2.4",
        "amqp==5.1.1", "vine==5.0.0", "eventlet==0.33.3",
    )  # fmt: skip
    tests = ("test",)
    options = ("-k", "not EXTERNAL")
    left_out = (
        ("tests of EXTERNAL", "need users with the names of certificates"),
        ("tests of lost connections", "skip themselves without toxiproxy, which Debian does not have"),
    )
    explained = (
        *(
            (name, "gets messages by the HTTP API without `ackmode`, which RabbitMQ requires since 3.7")
            for name in (
                "test.test_events::test_dispatch_to_rabbit",
                "test.test_events::test_reliable_delivery",
                "test.test_messaging::test_publish_to_rabbit",
                "test.test_messaging::test_unserialisable_headers",
                "test.test_queue_consumer::test_lifecycle",
                "test.test_serialization::",
            )
        ),
        ("test.amqp.test_publish.TestPublisher::test_retry", "counts the attempts of an older kombu"),
    )
    explained_elsewhere = tuple(
        (name, "reads consumers and messages of a queue at once, which RabbitMQ counts every 5 s")
        for name in (
            "test.test_broker::test_proxy_disconnect_with_active_worker",
            "test.test_broker::test_service_disconnect_with_active_rpc_worker",
            "test.test_events::",
            "test.test_rpc::test_rpc_consumer_creates_single_consumer",
            "test.testing.test_pytest_plugin.TestGetMessageFromQueue::",
        )
    )
    programs = ""

    def environment(self, broker: Broker) -> dict[str, str]:
        return {"PATH": f"{self.programs}:{os.environ['PATH']}"}

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        self.programs = str(folder / "venv/bin")
        copy_certificates(broker, folder / "source/certs", "cacert.pem", "clientcert.pem", "clientkey.pem")
        return super().run(folder, broker)


class Taskiq(RepositorySuite):
    name = "taskiq-aio-pika"
    version = "0.6.0"
    what = "`tests`"
    repository = "https://github.com/taskiq-python/taskiq-aio-pika"
    commit = "cf893019f02c01a6a141f46f217be3f959a317f4"
    pytest = ("pytest==9.0.3", "pytest-timeout==2.4.0", "pytest-rerunfailures==16.7", "anyio==4.12.0")
    tests = ("tests",)
    settings = "pyproject.toml"
    explained_elsewhere = tuple(
        (name, "RabbitMQ had no plugin for `x-delayed-message`, which is part of Warren")
        for name in (
            "tests.test_delay_with_plugin::",
            "tests.test_startup.TestStartup::test_when_delayed_message_exchange_plugin_enabled",
        )
    )

    def environment(self, broker: Broker) -> dict[str, str]:
        return {"TEST_AMQP_URL": URL}


class ChannelsRabbitMQ(RepositorySuite):
    name = "channels_rabbitmq"
    version = "4.0.1"
    what = "`tests`"
    repository = "https://github.com/CJWorkbench/channels_rabbitmq"
    commit = "740e6f3e36becc90ee68f4ac18710e765b96a3f5"
    pytest = ("pytest==7.4.4", "pytest-timeout==2.4.0", "pytest-asyncio==0.23.8", "pytest-rerunfailures==15.1")
    tests = ("tests",)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        copy_certificates(broker, folder / "source/ssl", "server.cert", "client.certchain", "client.key")
        return super().run(folder, broker)
