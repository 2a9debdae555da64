"""kombu: t/integration of its sdist, the part for py-amqp. The rest of t/ needs no broker or other brokers."""

from .brokers import PORT, Broker
from .python import SdistSuite


class Kombu(SdistSuite):
    name = "kombu"
    version = "5.5.4"
    what = "`t/integration/test_py_amqp.py`"
    sha256 = "886600168275ebeada93b888e831352fe578168342f0d1d5833d88ba0d847363"
    tests = ("t/integration/test_py_amqp.py",)
    left_out = (
        ("t/unit", "opens no connection"),
        ("t/integration/test_{kafka,mongodb,redis}.py", "for other brokers"),
    )

    def environment(self, broker: Broker) -> dict[str, str]:
        return {"RABBITMQ_HOST": "localhost", "RABBITMQ_5672_TCP": str(PORT)}
