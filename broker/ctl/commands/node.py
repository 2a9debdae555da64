"""Commands that stop and start the node and its listeners, and set its limits."""

from __future__ import annotations

from ..answers import CommandError, bad_argument
from ..exit_status import USAGE
from .call import Call, Handler

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kb": 1000, "mb": 10**6, "gb": 10**9}
UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tb": 10**12, "tib": 1 << 40, "t": 1 << 40}
LARGEST_SIZE = (1 << 63) - 1  # as the HTTP API has it
DIGITS = len(str(LARGEST_SIZE))


def size_bytes(text: str) -> int:
    """Return the bytes of a size such as 50MB. Raises CommandError (65)."""
    digits = text.rstrip("kKmMgGtTiIbB")
    unit = text[len(digits) :].lower()
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_argument("A size is a number of bytes, or a number with a unit, such as 512MiB or 2GB")
    if unit and unit not in UNITS:
        raise bad_argument("Invalid units. Use one of kB, MB, GB, TB, KiB, MiB, GiB, TiB")
    size = int(digits) * UNITS.get(unit, 1) if len(digits) <= DIGITS else LARGEST_SIZE + 1
    if size > LARGEST_SIZE:
        raise bad_argument(f"A size is at most {LARGEST_SIZE} bytes")
    return size


def fraction(text: str, other: str = "") -> float:
    """Return the number; `other` says what may be written in its place. Raises CommandError (65)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e6:
        raise bad_argument(f"A fraction of the memory is a number such as 0.4{other}")
    return value


def stop(call: Call) -> None:
    call.api.post("warren", "shutdown")


def suspend_listeners(call: Call) -> None:
    call.api.put("warren", "listeners", body={"state": "suspended"})


def resume_listeners(call: Call) -> None:
    call.api.put("warren", "listeners", body={"state": "running"})


def drain(call: Call) -> None:
    call.api.put("warren", "listeners", body={"state": "drained"})


def stop_app(call: Call) -> None:
    call.api.put("warren", "application", body={"state": "stopped"})


def start_app(call: Call) -> None:
    call.api.put("warren", "application", body={"state": "running"})


def reset(call: Call) -> None:
    call.api.post("warren", "reset")


def set_vm_memory_high_watermark(call: Call) -> None:
    """Raises CommandError (64, 65)."""
    first, *rest = call.arguments
    if first == "absolute":
        limit: dict[str, object] = {"bytes": size_bytes(required(rest))}
    else:
        share = fraction(first, "; a size follows the word absolute, as in: absolute 2GB")
        if share > 1.0:
            raise bad_argument("The threshold should be a fraction between 0.0 and 1.0")
        limit = {"fraction": share}
    call.api.put("warren", "limits", "memory", body=limit)


def set_disk_free_limit(call: Call) -> None:
    """Raises CommandError (64, 65)."""
    first, *rest = call.arguments
    limit: dict[str, object] = (
        {"fraction": fraction(required(rest))} if first == "mem_relative" else {"bytes": size_bytes(first)}
    )
    call.api.put("warren", "limits", "disk", body=limit)


def required(rest: list[str]) -> str:
    """Return the argument that must follow. Raises CommandError (64)."""
    if not rest:
        raise CommandError(USAGE, "not enough arguments.", argument=True)
    return rest[0]


COMMANDS: dict[str, Handler] = {
    "drain": drain,
    "force_reset": reset,
    "reset": reset,
    "resume_listeners": resume_listeners,
    "revive": resume_listeners,
    "set_disk_free_limit": set_disk_free_limit,
    "set_vm_memory_high_watermark": set_vm_memory_high_watermark,
    "shutdown": stop,
    "start_app": start_app,
    "stop": stop,
    "stop_app": stop_app,
    "suspend_listeners": suspend_listeners,
}
