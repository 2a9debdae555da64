"""All that answers on the port of the API."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from broker.plugin import Host

from .api import routes
from .state import State
from .web import Web


def application(host: Host, state: State) -> ASGIApp:
    config = state.config
    web = Web(host, state, routes())
    if not config.cors_allow_origins:
        return web
    return CORSMiddleware(
        web,
        allow_origins=config.cors_allow_origins,
        allow_methods=["HEAD", "GET", "POST", "PUT", "DELETE", "OPTIONS"],
        allow_headers=["*"],
        allow_credentials=True,
        max_age=config.cors_max_age_s,
    )
