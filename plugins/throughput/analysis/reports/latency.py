"""The latency of messages by stage."""

from pyspark.sql import DataFrame

from ..quantiles import quantiles


def latency(latencies: DataFrame, stages: DataFrame) -> DataFrame:
    """Return quantiles by queue and stage; confirms are counted by virtual host.

    The stages `publish_*` are times since the publish, the others are times within the queue.
    """
    return quantiles(latencies.unionByName(stages), "node", "vhost", "queue", "stage")
