"""Requests and responses of the HTTP API: routes, bodies, lists and pages, streams of lines, the description."""
