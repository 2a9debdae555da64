"""Deques that are made at their first use: an empty one takes 760 bytes, and most queues need none of theirs."""

from collections import deque
from typing import TypeVar

T = TypeVar("T")

LazyDeque = deque[T] | tuple[()]
"""A deque, or an empty tuple until one is needed."""


def made(lazy: LazyDeque[T]) -> deque[T]:
    """Return the deque, or a new one in place of the empty tuple."""
    return lazy if isinstance(lazy, deque) else deque()
