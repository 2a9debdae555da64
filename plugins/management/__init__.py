"""The HTTP API by which operators, their scripts and dashboards see and change the broker."""
