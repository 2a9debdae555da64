"""The user interface in the browser: an application that serves the files of `ui` and `web` from memory."""

import asyncio
import hashlib
import mimetypes
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from .. import web
from ..http.asgi import GZIP_FROM, Application, Incoming, compress_now
from .framework.http_api import fixed_headers
from .framework.state import ManagementState

FOLDER = Path(__file__).with_name("ui")
SHARED = "web"  # the path of the files that reports use as well
DOCUMENTS = "docs"
TITLES = f"{DOCUMENTS}/titles.json"  # the titles of the documents by name
INDEX = "index.html"
# RabbitMQ until 4.2 had its script rabbitmqadmin there.
ADMIN_FOLDER = "cli/"
ADMIN = (
    "rabbitmqadmin is a program of its own, which works with this broker: https://www.rabbitmq.com/docs/management-cli"
    " says where to download it. warrenctl is installed with the broker.\n"
)
# Nothing but the files of this folder and the API of this node: no inline scripts or styles.
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
FRAME_ANCESTORS = {"": "", "SAMEORIGIN": "; frame-ancestors 'self'"}  # by `frame_options`; none for all others
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Browsers ask whether a file has changed, so the page of a newer version is never mixed with scripts of an older.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the folder. `compressed` is None where that gains nothing; `digest` names the content."""

    media_type: str | None
    content: bytes
    compressed: bytes | None
    digest: str


def _stored(name: str, content: bytes) -> StoredFile:
    compressed = compress_now([content]) if len(content) >= GZIP_FROM else None
    return StoredFile(mimetypes.guess_type(name)[0], content, compressed, hashlib.sha256(content).hexdigest()[:32])


def documents() -> Path:
    """Return the folder of the documents: that of the checkout, or that of an installation."""
    checkout = Path(__file__).resolve().parents[2] / "docs"
    return checkout if checkout.is_dir() else Path(sysconfig.get_path("data"), "share", "doc", "warrenmq")


def read_files() -> dict[str, StoredFile]:
    """Return the files by path, such as `core/api.js`, `web/table.js` or `docs/start.md`; the path "" is the index."""
    paths = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*") if path.is_file()}
    paths |= {f"{SHARED}/{path.name}": path for path in web.files()}
    folder = documents()
    pages = sorted(folder.glob("*.md"))
    for path in (*pages, *folder.glob("images/*.svg")):
        paths[f"{DOCUMENTS}/{path.relative_to(folder).as_posix()}"] = path
    files = {name: _stored(path.name, path.read_bytes()) for name, path in paths.items()}
    titles = {page.stem: page.read_text("utf-8").partition("\n")[0].removeprefix("# ") for page in pages}
    files[TITLES] = _stored(TITLES, msgspec.json.encode(titles))
    return {"": files[INDEX], **files}


def _has(headers: Mapping[str, str], tag: str) -> bool:
    """True if the client says that it has the body of this entity tag (RFC 9110, 13.1.2)."""
    tags = [one.strip().removeprefix("W/") for one in headers.get("if-none-match", "").split(",")]
    return tag in tags or "*" in tags


class UIFiles(Application):
    """Serves the files below `management.path_prefix`; the prefix without a slash at its end redirects to the page.

    All files are read at the first request, so a page is never mixed with scripts of another version.
    """

    def __init__(self, state: ManagementState) -> None:
        self._prefix = state.config.path_prefix.rstrip("/")
        self._config = state.config
        self._files: dict[str, StoredFile] | None = None
        self._headers = fixed_headers(state) | HEADERS
        ancestors = FRAME_ANCESTORS.get(state.config.frame_options.upper(), "; frame-ancestors 'none'")
        self._headers["content-security-policy"] = state.config.csp_policy or CONTENT_SECURITY + ancestors

    def answers(self, path: str) -> bool:
        """True for paths below the prefix that are not the API's."""
        return path == self._prefix or path.startswith(f"{self._prefix}/")

    async def serve(self, incoming: Incoming) -> None:
        response = await self._response(incoming)
        response.headers.update(self._headers)
        await response(incoming.scope, incoming.receive, incoming.send)

    async def _response(self, incoming: Incoming) -> Response:
        path: str = incoming.scope["path"]
        if not incoming.reads:
            return Response(status_code=405, headers={"allow": "GET, HEAD"})
        if self._prefix and path == self._prefix:
            return RedirectResponse(f"{self._prefix}/")
        if self._files is None:
            self._files = await asyncio.to_thread(read_files)
        name = path.removeprefix(f"{self._prefix}/")
        file = self._files.get(name)
        if file is None:
            return PlainTextResponse(ADMIN, 404) if name.startswith(ADMIN_FOLDER) else Response(status_code=404)
        return self._file_response(file, incoming)

    def _file_response(self, file: StoredFile, incoming: Incoming) -> Response:
        """Return the file, compressed if the listener and the client allow that, or 304 if the client has it.

        The server leaves out the body of a response to HEAD.
        """
        headers = {"etag": f'"{file.digest}"'}
        body = file.content
        compress = self._config.listener_of(incoming.scheme).compress
        if file.compressed is not None and compress and incoming.takes_gzip:
            body = file.compressed
            headers |= {"content-encoding": "gzip", "etag": f'"{file.digest}-gzip"'}
        if _has(incoming.headers, headers["etag"]):
            headers.pop("content-encoding", None)
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=file.media_type)
