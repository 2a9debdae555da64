"""py-amqp: t/integration/test_rmq.py of its sdist, which lacks the certificates of t/certs."""

from pathlib import Path

from .brokers import PORT, TLS_PORT, Broker
from .python import SdistSuite
from .results import Case


class PyAMQP(SdistSuite):
    name = "amqp"
    version = "5.3.1"
    what = "`t/integration/test_rmq.py`"
    sha256 = "cddc00c725449522023bad949f70fff7b48f0b1ade74d170a6f10ab044739432"
    tests = ("t/integration/test_rmq.py",)
    options = ("--deselect=t/integration/test_rmq.py::test_tls_default_certs",
               "--deselect=t/integration/test_rmq.py::test_tls_no_default_certs_fails")  # fmt: skip
    left_out = (
        ("t/unit, t/integration/test_integration.py", "open no connection"),
        ("test_tls_default_certs, test_tls_no_default_certs_fails", "speak to badssl.com, not to a broker"),
    )

    def environment(self, broker: Broker) -> dict[str, str]:
        return {"RABBITMQ_HOST": "localhost", "RABBITMQ_5672_TCP": str(PORT), "RABBITMQ_5671_TCP": str(TLS_PORT)}

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        certificates = folder / "source/t/certs"
        certificates.unlink(missing_ok=True)
        certificates.symlink_to(broker.certificates.resolve())
        return super().run(folder, broker)
