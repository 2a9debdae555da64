"""A consumer of the queues shard-0, shard-1 and so on, as a process of its own that a test can kill.

    order_taker.py PORT SHARDS

It takes one message at a time from each, and writes `key number`, a line each, once it is done with it.
"""

import sys
import time

import pika


def main(port: int, shards: int) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)

    def handle(_, method, __, body):
        time.sleep(0.001)
        print(method.routing_key, body.decode(), flush=True)
        channel.basic_ack(method.delivery_tag)

    for shard in range(shards):
        channel.basic_consume(f"shard-{shard}", handle)
    print("consuming", flush=True)
    channel.start_consuming()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
