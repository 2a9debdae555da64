"""The targets of coverage-guided fuzzing: everything of the broker that reads bytes from outside.

A target is a function of an input and of `turn`, which it calls at the end of each turn of the event loop. It raises if
the bytes are neither accepted nor refused with a documented error, or if a check of the state fails afterwards.
`tools.fuzz` searches for such inputs (`make fuzz-coverage`); `test_targets.py` runs the stored ones in the gate.
"""

from . import federation, operator, session, storage, wire
from .target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (wire, session, operator, storage, federation)
    for target in vars(module).values()
    if isinstance(target, Target)
}
