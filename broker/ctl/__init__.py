"""The command `warrenctl`: rabbitmqctl's commands, words and exit codes, over the node's control socket."""

from .main import main

__all__ = ["main"]
