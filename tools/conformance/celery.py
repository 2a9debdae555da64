"""Celery: t/integration of its sdist, with Redis for the results, and the part that needs none with rpc://."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.polling import until
from tests.support.ports import free_port

from .brokers import URL, Broker, listens
from .python import SdistSuite
from .results import Case
from .suite import needed

REDIS_STOP_TIMEOUT_S = 10


class Celery(SdistSuite):
    name = "Celery"
    version = "5.7.0"
    what = "`t/integration`, results in Redis"
    sha256 = "6a5dfcf6662287204f009a02002b9e66c83d4105e47ebabdc7079108772fc6f0"
    time_limit_s = 2400
    test_limit_s = 400  # a test waits 20 s for each of seven chords that nothing more comes of
    features = "[redis,sqlalchemy,auth,yaml,msgpack,tblib,pydantic,django]"
    pytest = ("pytest==9.0.3", "pytest-timeout==2.4.0", "pytest-rerunfailures==16.7")
    extra = (
        "kombu==5.7.0", "pytest-subtests==0.15.0", "pytest-order==1.5.0", "pytest-click==1.1.0", "freezegun==1.5.5",
        "pytest-celery==1.3.0", "Django==5.2.8",
    )  # fmt: skip
    tests: Sequence[str] = ("t/integration",)
    settings = "pyproject.toml"
    options = ("--ignore=t/integration/test_backend.py",
               "--ignore=t/integration/test_backend_leak_in_fixture_teardown.py")  # fmt: skip
    left_out: Sequence[tuple[str, str]] = (
        ("t/unit", "opens no connection"),
        ("t/smoke", "starts workers and RabbitMQ in Docker"),
        ("t/integration/test_backend.py", "speaks to Azure"),
        ("t/integration/test_backend_leak_in_fixture_teardown.py", "has its broker in memory"),
    )

    redis_port = 0

    def environment(self, broker: Broker) -> dict[str, str]:
        return {"TEST_BROKER": f"{URL}//", "TEST_BACKEND": f"redis://127.0.0.1:{self.redis_port}/0",
                "REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(self.redis_port), "WORKER_LOGLEVEL": "INFO"}  # fmt: skip

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        server = needed("redis-server", "redis-server")
        self.redis_port = free_port()
        with (broker.folder / "redis.log").open("wb") as log:
            command = [server, "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", ""]
            redis = subprocess.Popen(command, cwd=broker.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(lambda: listens(self.redis_port), "Redis is ready", every_s=0.1)
            return super().run(folder, broker)
        finally:
            redis.terminate()
            redis.wait(REDIS_STOP_TIMEOUT_S)


class CeleryRPC(Celery):
    """The same sources with results in reply queues of the broker."""

    name = "Celery rpc"
    what = "`t/integration/test_{canvas,tasks,inspect}.py`, results by `rpc://`"
    tests = ("t/integration/test_canvas.py", "t/integration/test_tasks.py", "t/integration/test_inspect.py")
    left_out = (("the other files of t/integration", "as with Redis, or for other backends"),)
    explained = (("t.integration.test_tasks.test_tasks::test_retry", "its authors expect that it fails with `rpc`"),)

    def environment(self, broker: Broker) -> dict[str, str]:
        return {**super().environment(broker), "TEST_BACKEND": "rpc://"}

    def prepared(self, cache: Path) -> Path:
        return Celery().prepared(cache)
