"""oslo.messaging: the functional tests of its sdist, with classic and with quorum queues."""

from .brokers import Broker
from .python import SdistSuite


class OsloMessaging(SdistSuite):
    name = "oslo.messaging"
    version = "18.3.1"
    what = "`oslo_messaging/tests/functional`"
    sha256 = "28831b36096d74da5cd1370ef25b4719aaca627d94785a67a9838a480ce7ee3a"
    extra = (
        "oslotest==6.0.0", "testscenarios==0.5.0", "testtools==2.7.2", "fixtures==4.2.6", "pifpaf==3.4.0",
        "confluent-kafka==2.12.1",
    )  # fmt: skip
    tests = (
        "oslo_messaging/tests/functional/test_functional.py",
        "oslo_messaging/tests/functional/notify/test_logger.py",
    )
    left_out = (
        ("oslo_messaging/tests but functional", "opens no connection"),
        ("functional/test_rabbitmq.py", "starts a cluster of three RabbitMQ nodes"),
    )

    explained = (
        (
            "oslo_messaging.tests.functional.test_functional.NotifyTestCase::test_simple_batch",
            "expects 205 notifications in batches of 2 s, whatever the machine",
        ),
        ("oslo_messaging.tests.functional.test_functional.MetricsTestCase::", "needs a server of metrics on port 3000"),
        (
            "oslo_messaging.tests.functional.notify.test_logger.LoggingNotificationHandlerTestCase::",
            "made for another runner of tests: pytest does not read its scenarios",
        ),
    )

    def environment(self, broker: Broker) -> dict[str, str]:
        url = "rabbit://guest:guest@127.0.0.1:5672/"
        return {"TRANSPORT_DRIVER": "rabbit", "RPC_TRANSPORT_URL": url, "NOTIFY_TRANSPORT_URL": url}
