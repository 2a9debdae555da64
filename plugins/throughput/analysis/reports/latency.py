"""How long messages took, stage by stage."""

from pyspark.sql import DataFrame

from ..quantiles import quantiles


def latency(latencies: DataFrame, stages: DataFrame) -> DataFrame:
    """Since the publish for `publish_*`, within the queue for the others. Confirms are of virtual hosts."""
    return quantiles(latencies.unionByName(stages), "node", "vhost", "queue", "stage")
