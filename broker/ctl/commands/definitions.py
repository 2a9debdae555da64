"""Commands that export and import definitions, and the files that they write and read."""

import io
import json
import sys

from ... import standard_streams
from ...system_errors import DEFINITIONS_LIMIT, file_error, read_text, too_long
from ..call import Call
from ..command import DEFINITIONS
from ..errors import DATA, UNAVAILABLE, USAGE, APIError, CommandError, ExitError, bad_argument
from ..formats import Lines
from ..output_file import replacing
from .users import standard_input

NO_JSON = ("failed to parse JSON", "failed_to_parse_json")


def check_format(call: Call) -> None:
    if call.text("format", "json").lower() != "json":
        raise bad_argument("Format should be json")


def export_banner(call: Call) -> str:
    """Return "" for the standard output, which gets only the definitions."""
    file = call.arguments[0]
    return "" if standard_streams.is_output(file) else f'Exporting definitions in JSON to a file at "{file}" ...'


def export_definitions(call: Call) -> Lines:
    check_format(call)
    save(call.arguments[0], call.get("definitions"))
    return Lines(iter(()))


def save(name: str, value: object) -> None:
    """Write JSON to a file or the standard output. Raises CommandError (69)."""
    text = json.dumps(value, ensure_ascii=False) + "\n"
    if standard_streams.is_output(name):
        sys.stdout.write(text)
        return
    try:
        with replacing(name) as opened:
            opened.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise CommandError(UNAVAILABLE, f"cannot write {file_error(error)}") from None


def import_banner(call: Call) -> str:
    files = [file for file in call.arguments if file != "-"]
    source = f'a file at "{files[0]}"' if files else "the standard input"
    return f"Importing definitions in JSON from {source} ..."


def import_definitions(call: Call) -> str | None:
    """Import definitions; the unix socket returns what was skipped, otherwise only the node's log has it."""
    check_format(call)
    text = text_of(call.arguments[0] if call.arguments else "-")
    skip, is_local = call.flag("skip-if-unchanged"), call.api.is_local
    if skip and not is_local:
        raise CommandError(USAGE, "warrenctl: --skip-if-unchanged goes by the control socket, not by --url", bare=True)
    query = {"leave-out": "true"} if call.flag("leave-out") else {}
    if is_local:
        query["skip-if-unchanged"] = str(skip).lower()
    try:
        answer = call.api.request("POST", ("warren", "definitions") if is_local else ("definitions",), text, query)
    except APIError as error:
        if error.status == 400 and not error.reason.startswith(NO_JSON) and not query.get("leave-out"):
            advice = "If that is what Warren lacks, such as a shovel or a stream, --leave-out imports the rest."
            raise CommandError(UNAVAILABLE, f"{error.reason.rstrip()}\n\n{advice}") from None
        if error.status != 400 or not error.reason.startswith(NO_JSON):
            raise
        raise CommandError(DATA, f"Failed to deserialise input (format: JSON) (error: {error.reason})") from None
    return "\n".join(answer["skipped"]) or None if is_local else None


def text_of(name: str) -> str:
    """Read a file, or the standard input for "-". Raises CommandError (65), ExitError."""
    shown = "standard input" if name == "-" else name
    try:
        if name != "-":
            return read_text(name, "utf-8-sig", limit=DEFINITIONS_LIMIT)
        stream = standard_input()
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8-sig", errors="strict")  # whatever the locale has
        text = stream.read(DEFINITIONS_LIMIT + 1)
        if len(text) > DEFINITIONS_LIMIT:
            raise too_long(shown, DEFINITIONS_LIMIT)
        return text
    except FileNotFoundError:
        raise bad_argument(f"File {name} does not exist") from None
    except OSError as error:
        raise ExitError(UNAVAILABLE, f"Error:\ncannot read {file_error(error, shown)}") from None
    except UnicodeDecodeError:
        raise ExitError(DATA, f"Error:\ncannot read {shown}: not UTF-8, as JSON has to be") from None


# fmt: off
DEFINITIONS("export_definitions [--format <format>] <file>: Exports definitions to a file, - being the standard output",
            export_banner, export_definitions)
DEFINITIONS("import_definitions [--format <format>] [--skip-if-unchanged] [--leave-out] [<file>]: "
            "Imports definitions from a file or the standard input", import_banner, import_definitions)
