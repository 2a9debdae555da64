"""The Celery application that test_celery drives: imported by the test and, in a process of its own, by the worker."""

import os
import time

from celery import Celery, Task, signals

app = Celery("conformance", broker=os.environ.get("CONFORMANCE_BROKER_URL"), backend="rpc://")
app.conf.update(
    task_default_queue=os.environ.get("CONFORMANCE_QUEUE", "conformance.celery"),
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
    result_expires=60,
)


@signals.worker_ready.connect
def say_ready(**_: object) -> None:
    print("READY", flush=True)


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(bind=True, max_retries=2)
def fails_at_first(self: Task, needed: int) -> int:
    """Succeed at attempt `needed` and return the number of retries."""
    if self.request.retries < needed:
        raise self.retry(countdown=0)
    return int(self.request.retries)


@app.task
def fails() -> None:
    raise ValueError("as asked")


@app.task
def finished_at() -> float:
    return time.time()


@app.task
def echo(text: str) -> str:
    return text
