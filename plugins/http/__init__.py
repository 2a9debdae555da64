"""HTTP inside of the broker, for any service that answers it."""
