"""The connection of a command line to its node: by the unix socket in its data folder, or by URL."""

from pathlib import Path

from .api_client import API, LocalAPI
from .call import Call
from .command import ANY_NODE
from .commands import COMMANDS
from .errors import UNAVAILABLE, USAGE, APIError, ExitError, Unreachable

CREDENTIALS = "http://USER@HOST:PORT names the user, --password-file or WARRENCTL_PASSWORD the password"


def connect_to_socket(call: Call, folder: Path, timeout_s: float | None) -> None:
    """Raises Unreachable, TimeoutError."""
    api = LocalAPI(folder, timeout_s)
    try:
        node = api.get("warren", "node")
        call.api, call.node, call.default_vhost = api, str(node["node"]), str(node["default_vhost"])
    except (APIError, LookupError, TypeError) as error:
        api.close()
        raise Unreachable(f"{api.address}: {error}") from None
    except (Unreachable, TimeoutError):
        api.close()
        raise


def connect_to_url(call: Call, url: str, timeout_s: float | None, password_file: str = "", ask: bool = True) -> None:
    """Connect to a broker, named ANY_NODE without the tag monitoring. Raises ExitError, Unreachable, TimeoutError.

    `ask`: a missing password may be asked for.
    """
    if COMMANDS[call.command].local:
        raise ExitError(USAGE, f"warrenctl: {call.command} goes by the control socket, not by --url")
    api = API(url, timeout_s, password_file, ask)
    try:
        overview = api.get("overview", columns="node")
        if not isinstance(overview, dict):
            raise Unreachable(f"{api.address}: not the HTTP API of RabbitMQ")
    except APIError as error:
        api.close()
        text = f"Error: unable to perform an operation on the broker of --url: {api.address}: {reason_of(error)}"
        raise ExitError(UNAVAILABLE, text) from None
    except (Unreachable, TimeoutError):
        api.close()
        raise
    call.api, call.node = api, str(overview.get("node") or ANY_NODE)


def reason_of(error: APIError) -> str:
    """Return the reason as text; a failed login does not name the user."""
    if error.status != 401:
        return error.reason
    if error.error != "not_authorized":
        return f"access refused: {error.reason}"
    return f"user or password is wrong: {CREDENTIALS}"
