"""The user interface in the browser: an ASGI application that serves the files of the folder `ui`."""

from __future__ import annotations

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from .framework.context import State
from .http_api import fixed_headers

FOLDER = Path(__file__).with_name("ui")
# Nothing but the files of this folder and the API of this node: no inline scripts or styles, no frames.
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Browsers ask whether a file has changed, so the page of a newer version is never mixed with scripts of an older.
    "cache-control": "no-cache",
}


class UIFiles:
    """Serves the files below `management.path_prefix`; the prefix without a slash at its end redirects to the page."""

    def __init__(self, state: State) -> None:
        self._prefix = state.config.path_prefix.rstrip("/")
        self._files = StaticFiles(directory=FOLDER, html=True)
        headers = fixed_headers(state) | HEADERS
        headers["content-security-policy"] = state.config.csp_policy or CONTENT_SECURITY
        self._headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]

    def answers(self, raw_path: str) -> bool:
        """True for paths below the prefix that are not the API's."""
        return raw_path == self._prefix or raw_path.startswith(f"{self._prefix}/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in self._headers}
                kept = [(name, text) for name, text in message.get("headers", []) if name.lower() not in own]
                message = {**message, "headers": [*kept, *self._headers]}
            await send(message)

        if self._prefix and scope["path"] == self._prefix:
            await RedirectResponse(f"{self._prefix}/")(scope, receive, send_with_headers)
            return
        below = {**scope, "path": scope["path"].removeprefix(self._prefix), "root_path": ""}
        try:
            await self._files(below, receive, send_with_headers)
        except HTTPException as error:
            await Response(status_code=error.status_code)(scope, receive, send_with_headers)
