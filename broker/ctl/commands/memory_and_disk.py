"""Commands for memory and disk: alarms, their limits, memory by use."""

from ..call import Call, Item
from ..command import CHECKS, DIAGNOSTICS, NODES
from ..errors import UNAVAILABLE, USAGE, CommandError, bad_argument
from ..formats import Report

KB = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS = {"bytes": 1, **KB}
SIZE_UNITS = {"": 1, **KB} | {f"{unit}{ib}": 1 << 10 * (n + 1) for n, unit in enumerate("kmgt") for ib in ("", "ib")}
LARGEST_SIZE = (1 << 63) - 1  # as the HTTP API has it


def the_node(call: Call) -> Item:
    node: Item = call.get("nodes/{node}")
    return node


def alarms_of(node: Item) -> list[str]:
    """Return the resources of a node whose alarm is set; RabbitMQ's nodes have no field `storage`."""
    alarms = {"memory": node.get("mem_alarm"), "disk": node.get("disk_free_alarm")}
    alarms["store"] = node.get("storage", {}).get("alarm")
    return [resource for resource, is_set in alarms.items() if is_set]


def alarm_lines(call: Call, alarms: list[str]) -> list[str]:
    return [f"{resource.title()} alarm on node {call.node}" for resource in alarms]


def list_alarms(call: Call) -> Report:
    lines = alarm_lines(call, alarms_of(the_node(call)))
    text = "\n".join(lines) or f"Node {call.node} reported no alarms, local or clusterwide"
    return Report(text, {"result": "ok", "local": lines, "global": [], "message": text})


def check_alarms(call: Call) -> str:
    local = call.command == "check_local_alarms"
    lines = alarm_lines(call, alarms_of(the_node(call)))
    if lines:
        raise CommandError(UNAVAILABLE, "\n".join(lines), bare=not local)
    return f"Node {call.node} reported no {'local alarms' if local else 'alarms, local or clusterwide'}"


def divisor(call: Call) -> tuple[str, int]:
    """Return the unit of the option --unit, and its number of bytes. Raises CommandError (64)."""
    unit = call.text("unit", "gb").lower()
    if unit not in UNITS:
        text = f"unit '{unit}' is not supported. Please use one of: {', '.join(UNITS)}"
        raise CommandError(USAGE, f'"{text}"', argument=True)
    return unit, UNITS[unit]


def memory_breakdown(call: Call) -> Report:
    memory = call.get("nodes/{node}/memory")["memory"]
    parts = {name: size for name, size in memory.items() if isinstance(size, int) and size}
    (unit, by), total = divisor(call), sum(parts.values())
    ordered = sorted(parts.items(), key=lambda each: -each[1])
    lines = [f"{name}: {size / by:.4f} {unit} ({100 * size / (total or 1):.2f}%)" for name, size in ordered]
    return Report("\n".join(lines), memory)


def size_bytes(text: str) -> int:
    """Return the bytes of a size such as 50MB. Raises CommandError (65)."""
    digits = text.rstrip("kKmMgGtTiIbB")
    unit = text[len(digits) :].lower()
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_argument("A size is a number of bytes, or a number with a unit, such as 512MiB or 2GB")
    if unit not in SIZE_UNITS:
        raise bad_argument("Invalid units. Use one of kB, MB, GB, TB, KiB, MiB, GiB, TiB")
    if len(digits) > 19 or int(digits) * SIZE_UNITS[unit] > LARGEST_SIZE:
        raise bad_argument(f"A size is at most {LARGEST_SIZE} bytes")
    return int(digits) * SIZE_UNITS[unit]


def fraction(text: str, other: str = "") -> float:
    """Return the number; `other` says what may be written in its place. Raises CommandError (65)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e6:
        raise bad_argument(f"A fraction of the memory is a number such as 0.4{other}")
    return value


def second(call: Call) -> str:
    """Return the argument that must follow the first one. Raises CommandError (64)."""
    if len(call.arguments) < 2:
        raise CommandError(USAGE, "not enough arguments.", argument=True)
    return call.arguments[1]


def memory_banner(call: Call) -> str:
    first, *rest = call.arguments
    return f"Setting memory threshold on {call.node} to {f'{rest[0]} bytes' if rest else first} ..."


def set_vm_memory_high_watermark(call: Call) -> None:
    """Raises CommandError (64, 65)."""
    if call.arguments[0] == "absolute":
        limit: dict[str, object] = {"bytes": size_bytes(second(call))}
    else:
        share = fraction(call.arguments[0], "; a size follows the word absolute, as in: absolute 2GB")
        if share > 1.0:
            raise bad_argument("The threshold should be a fraction between 0.0 and 1.0")
        limit = {"fraction": share}
    call.put("warren/limits/memory", limit)


def disk_banner(call: Call) -> str:
    first, *rest = call.arguments
    limit = f"{rest[0]} times the total RAM" if rest else f"{first} bytes"
    return f"Setting disk free limit on {call.node} to {limit} ..."


def set_disk_free_limit(call: Call) -> None:
    """Raises CommandError (64, 65)."""
    relative = call.arguments[0] == "mem_relative"
    limit = {"fraction": fraction(second(call))} if relative else {"bytes": size_bytes(call.arguments[0])}
    call.put("warren/limits/disk", limit)


# fmt: off
DIAGNOSTICS("alarms: Lists resource alarms", "Asking node {node} to report any known resource alarms ...", list_alarms)
CHECKS("check_alarms: Fails if there are alarms", "Asking node {node} to report any local resource alarms ...",
       check_alarms)
CHECKS("check_local_alarms: Fails if there are alarms", "Asking node {node} to report any local resource alarms ...",
       check_alarms)
DIAGNOSTICS("memory_breakdown [--unit <unit>]: Displays memory by use", "Reporting memory breakdown on node {node}...",
            memory_breakdown)
NODES("force_gc: Does nothing: memory is freed as soon as it is not used",
      "Will ask all processes on node {node} to schedule a full sweep GC")
NODES.local("set_vm_memory_high_watermark <fraction> [<bytes>]: Sets the vm_memory_high_watermark setting",
            memory_banner, set_vm_memory_high_watermark)
NODES.local("set_disk_free_limit <disk_limit> [<fraction>]: Sets the disk_free_limit setting", disk_banner,
            set_disk_free_limit)
