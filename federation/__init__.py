"""Federation of exchanges and queues between brokers, as a service of the broker; see docs/federation.md."""
