"""Celery with one worker (two processes): tasks, retry, ETA, remote control, revoke, results over rpc://."""

import importlib.util
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pika
import pytest
from celery import chain, group
from celery.exceptions import TaskRevokedError
from kombu import pools

HERE = Path(__file__).resolve().parent
START_TIMEOUT_S = 60
TIMEOUT_S = 60


class Worker:
    """A worker process; a thread reads its output and reports that it is ready."""

    def __init__(self, environment):
        self.name = f"conformance-{uuid.uuid4().hex[:8]}@localhost"
        command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--concurrency=2", "--loglevel=info"]
        self.process = subprocess.Popen(
            [*command, "-n", self.name],
            cwd=HERE,
            env={**os.environ, **environment, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._ready = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("READY"):
                self._ready.put(True)
        self._ready.put(False)

    def wait_ready(self):
        try:
            ready = self._ready.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            ready = False
        if not ready:
            self.process.kill()
            pytest.fail("the worker did not become ready:\n" + "".join(self.lines))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        self.process.stdout.close()
        assert status == 0, f"the worker left with status {status}:\n" + "".join(self.lines)


@pytest.fixture(scope="module")
def tasks(broker_url):
    """The module `celery_tasks`, bound to this broker, with a worker."""
    name = f"conformance.celery.{uuid.uuid4().hex}"
    environment = {"CONFORMANCE_BROKER_URL": broker_url, "CONFORMANCE_QUEUE": name}
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setenv(key, value)
        spec = importlib.util.spec_from_file_location("celery_tasks", HERE / "celery_tasks.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "celery_tasks", module)
        spec.loader.exec_module(module)
        worker = Worker(environment)
        module.worker_name = worker.name
        try:
            worker.wait_ready()
            yield module
        finally:
            if worker.process.poll() is None:
                worker.stop()
        module.app.backend.result_consumer.stop()
        module.app.pool.force_close_all()
        module.app.close()
        pools.reset()
        with pika.BlockingConnection(pika.URLParameters(broker_url)) as connection:
            channel = connection.channel()
            for made in (name, f"{name}.other"):
                channel.queue_delete(made)
                channel.exchange_delete(made)


def test_tasks_return_their_results(tasks):
    assert tasks.add.delay(2, 3).get(timeout=TIMEOUT_S) == 5
    results = [tasks.add.delay(number, number) for number in range(50)]
    assert [result.get(timeout=TIMEOUT_S) for result in results] == [2 * number for number in range(50)]


def test_a_failure_is_reported(tasks):
    with pytest.raises(ValueError, match="as asked"):
        tasks.fails.delay().get(timeout=TIMEOUT_S)


def test_a_task_is_retried(tasks):
    assert tasks.fails_at_first.delay(2).get(timeout=TIMEOUT_S) == 2


def test_a_task_with_a_countdown_waits(tasks):
    asked_at = time.time()
    result = tasks.finished_at.apply_async(countdown=1)
    assert tasks.add.delay(1, 1).get(timeout=TIMEOUT_S) == 2  # the waiting task does not block others
    assert result.get(timeout=TIMEOUT_S) >= asked_at + 1


def test_many_tasks_with_an_eta_raise_the_prefetch(tasks):
    """Each waiting task makes the worker raise the prefetch of its channel; otherwise the last never arrives."""
    waiting = [tasks.finished_at.apply_async(countdown=1) for _ in range(20)]
    assert tasks.add.delay(1, 1).get(timeout=TIMEOUT_S) == 2
    for result in waiting:
        result.get(timeout=TIMEOUT_S)


def test_groups_and_chains(tasks):
    assert group(tasks.add.s(number, 1) for number in range(10))().get(timeout=TIMEOUT_S) == list(range(1, 11))
    assert chain(tasks.add.s(1, 2), tasks.add.s(3), tasks.add.s(4))().get(timeout=TIMEOUT_S) == 10


def test_a_big_argument_goes_and_comes_back(tasks):
    text = "é" * 1_000_000
    assert tasks.echo.delay(text).get(timeout=TIMEOUT_S) == text


def test_remote_control_is_answered(tasks):
    control = tasks.app.control.inspect([tasks.worker_name], timeout=TIMEOUT_S, limit=1)
    assert control.ping() == {tasks.worker_name: {"ok": "pong"}}
    assert "celery_tasks.add" in control.registered()[tasks.worker_name]
    (consumed,) = control.active_queues()[tasks.worker_name]
    assert consumed["name"] == tasks.app.conf.task_default_queue


def test_a_waiting_task_is_revoked(tasks):
    result = tasks.finished_at.apply_async(countdown=1)
    tasks.app.control.revoke(result.id, destination=[tasks.worker_name], reply=True, timeout=TIMEOUT_S, limit=1)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=TIMEOUT_S)


def test_a_worker_consumes_another_queue_on_request(tasks):
    name = f"{tasks.app.conf.task_default_queue}.other"
    where = {"destination": [tasks.worker_name], "reply": True, "timeout": TIMEOUT_S, "limit": 1}
    tasks.app.control.add_consumer(name, **where)
    assert tasks.add.apply_async((3, 4), queue=name).get(timeout=TIMEOUT_S) == 7
    tasks.app.control.cancel_consumer(name, **where)
