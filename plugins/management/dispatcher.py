"""The application on the port of the HTTP API: the API, the user interface, and metrics for monitoring users."""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from warren.broker.plugin import Host

from ..http.asgi import Application, GuestApplication, Incoming
from ..http.responses import HTTPError
from .api import routes
from .framework.http_api import HTTPAPI
from .framework.origins import ANY_ORIGIN
from .framework.state import ManagementState
from .ui_files import UIFiles

METRICS = "prometheus"  # the entry point of the service


class Dispatcher(Application):
    """An application that passes requests to the Prometheus service for metrics, to the API, or to the files of the UI.

    Requests whose Host header is not a name of this node are refused.
    """

    def __init__(self, host: Host, api: HTTPAPI, files: UIFiles) -> None:
        self._host = host
        self._api = api
        self._files = files

    async def serve(self, incoming: Incoming) -> None:
        try:
            self._api.origins.check_host(incoming.headers, incoming.peer)
        except HTTPError as refusal:
            return await self._api.refuse(incoming, refusal)
        application: Application = self._api
        metrics = self._host.services.get(METRICS)
        if isinstance(metrics, GuestApplication) and metrics.answers(incoming.path):
            application = await metrics.guarded_application()
        elif not self._api.answers(incoming.path) and self._files.answers(incoming.path):
            application = self._files
        await application.serve(incoming)


def application(host: Host, state: ManagementState) -> ASGIApp:
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
