"""The HTTP API for operators, scripts and dashboards."""
