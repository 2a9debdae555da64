"""The state of a process that has no free file descriptor."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptor() -> Iterator[None]:
    """Let this process open no file meanwhile."""
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
