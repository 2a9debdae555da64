"""The HTTP API at the node's unix socket, whose callers are administrators without a password."""

from warren.broker.plugin import Host

from ..http.asgi import Incoming
from ..http.auth import LOCAL_CALLER, Caller
from ..http.limits import Quota
from .api import routes
from .framework.http_api import API, HTTPAPI
from .framework.state import ManagementState
from .service import ManagementService

MANAGEMENT = "management"  # the entry point of the service
BODIES_BYTES = 512 << 20  # of bodies being read


class LocalAPI(HTTPAPI):
    """The application for callers that the socket has identified by uid; headers are not checked.

    It also works while the services of the node are stopped.
    """

    request_s = None

    def __init__(self, host: Host, state: ManagementState) -> None:
        super().__init__(host, state, routes())
        self._prefix = API
        self._bodies = Quota(BODIES_BYTES, BODIES_BYTES)

    @property
    def _state(self) -> ManagementState:
        """The state of the running service with its samples, or a state without samples."""
        service = self._host.services.get(MANAGEMENT)
        state = service.state if isinstance(service, ManagementService) else None
        return state or self._own_state

    @_state.setter
    def _state(self, state: ManagementState) -> None:
        self._own_state = state

    async def _log_in(self, incoming: Incoming) -> Caller:
        incoming.user = LOCAL_CALLER.user.name
        return LOCAL_CALLER
