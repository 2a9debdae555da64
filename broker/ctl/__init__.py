"""The command `warrenctl`: rabbitmqctl's commands, words and exit codes, as a client of the HTTP API."""

from .main import main

__all__ = ["main"]
