"""The unit of systemd."""

import sysconfig
from importlib.resources import files
from pathlib import Path

COMMAND = "/opt/warren/bin/warren"  # in the file


def unit() -> str:
    """Return the unit, which starts the `warren` of this environment."""
    text = files(__package__).joinpath("warren.service").read_text(encoding="utf-8")
    return text.replace(COMMAND, str(Path(sysconfig.get_path("scripts"), "warren")))
