"""The composition root: builds the broker from its configuration, starts it and stops it."""
