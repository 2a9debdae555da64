"""The ASGI application on the port of the HTTP API: the API, the user interface, and metrics for monitoring users."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from warren.broker.plugin import Host

from ..http.asgi import GuestApplication, raw_path_of
from .api import routes
from .framework.context import State
from .http_api import HTTPAPI
from .origins import ANY_ORIGIN
from .ui_files import UIFiles

METRICS = "prometheus"  # the entry point of the service


class Dispatcher:
    """An ASGI application: requests for metrics go to the Prometheus service, if it runs.

    Others go to the API if their path is below it, or else to the files of the user interface.
    """

    def __init__(self, host: Host, web: HTTPAPI, files: UIFiles) -> None:
        self._host = host
        self._web = web
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        application: ASGIApp = self._web
        metrics = self._host.services.get(METRICS)
        raw_path = raw_path_of(scope)
        if not self._web.has_own_host(scope):
            pass  # the API refuses it
        elif isinstance(metrics, GuestApplication) and metrics.answers(raw_path):
            application = await metrics.guarded_application()
        elif not self._web.answers(raw_path) and self._files.answers(raw_path):
            application = self._files
        await application(scope, receive, send)


def application(host: Host, state: State) -> ASGIApp:
    """Return the application, with CORS headers if other origins are allowed.

    If any origin is allowed, browsers may not send stored credentials.
    """
    config = state.config
    web = Dispatcher(host, HTTPAPI(host, state, routes()), UIFiles(state))
    if not config.cors_allow_origins:
        return web
    return CORSMiddleware(
        web,
        allow_origins=config.cors_allow_origins,
        allow_methods=["HEAD", "GET", "POST", "PUT", "DELETE", "OPTIONS"],
        allow_headers=["*"],
        allow_credentials=ANY_ORIGIN not in config.cors_allow_origins,
        max_age=config.cors_max_age_s,
    )
