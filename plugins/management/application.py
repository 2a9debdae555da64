"""The ASGI application on the port of the HTTP API: the API, and metrics for users with the tag monitoring."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from warren.broker.plugin import Host

from ..http.asgi import GuestApplication, raw_path_of
from .api import routes
from .framework.context import State
from .http_api import HTTPAPI
from .origins import ANY_ORIGIN

METRICS = "prometheus"  # the entry point of the service


class Dispatcher:
    """An ASGI application: requests for metrics go to the Prometheus service, if it runs, others to the API."""

    def __init__(self, host: Host, web: HTTPAPI) -> None:
        self._host = host
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        application: ASGIApp = self._web
        metrics = self._host.services.get(METRICS)
        if (
            isinstance(metrics, GuestApplication)
            and metrics.answers(raw_path_of(scope))
            and self._web.has_own_host(scope)
        ):
            application = await metrics.guarded_application()
        await application(scope, receive, send)


def application(host: Host, state: State) -> ASGIApp:
    """Return the application, with CORS headers if other origins are allowed.

    If any origin is allowed, browsers may not send stored credentials.
    """
    config = state.config
    web = Dispatcher(host, HTTPAPI(host, state, routes()))
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
