"""The command `warren trace`: the path of one message through all brokers, read from the export without Spark."""
