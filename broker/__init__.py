"""The broker."""

from . import compilation as compilation  # first: it decides whether the modules below are imported as compiled
