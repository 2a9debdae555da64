"""The suites, in the order of the public table."""

from .aio_pika import AioPika, Aiormq
from .amqp091_go import Amqp091Go
from .amqplib import Amqplib
from .amqpstorm import AMQPStorm
from .bunny import Bunny
from .celery import Celery, CeleryRPC
from .frameworks import ChannelsRabbitMQ, Dramatiq, FastStream, Nameko, Taskiq
from .java_client import JavaClient
from .kombu import Kombu
from .oslo_messaging import OsloMessaging
from .packaged import AnyEventRabbitMQ, PHPAmqplib, RabbitMQC
from .pika import Pika
from .py_amqp import PyAMQP
from .suite import Suite

SUITES: tuple[Suite, ...] = (
    Pika(),
    PyAMQP(),
    AMQPStorm(),
    Aiormq(),
    AioPika(),
    Kombu(),
    Celery(),
    CeleryRPC(),
    Dramatiq(),
    FastStream(),
    Nameko(),
    OsloMessaging(),
    Taskiq(),
    ChannelsRabbitMQ(),
    Amqplib(),
    Amqp091Go(),
    JavaClient(),
    Bunny(),
    PHPAmqplib(),
    RabbitMQC(),
    AnyEventRabbitMQ(),
)
