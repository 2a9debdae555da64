"""Control of a node by operators: starts and stops listeners, the application and the process, and resets the node."""

from collections.abc import Callable, Coroutine

from ..config import Config
from ..core.node.node import Node
from ..core.policies.parameters import CLUSTER_ID
from ..net.server import Server
from .default_user import default_user
from .node_log import NodeLog


async def not_listening() -> object:
    return None


async def no_services() -> bool:
    return True


async def nothing_to_stop() -> None: ...


class NodeControl:
    """Starts and stops the application, RabbitMQ's name for all that serves clients.

    The composition root sets five callables: `listen` opens the listeners for AMQP and returns None on failure,
    `start_services` starts new services and returns whether all have started, `stop_services` stops all of them, `stop`
    ends the process, `read_config` reads the configuration anew in a thread; it raises ConfigError, OSError.
    """

    def __init__(self, node: Node, config: Config, server: Server) -> None:
        self.log = NodeLog(node.name, config.log)
        self.listen: Callable[[], Coroutine[object, object, object]] = not_listening
        self.start_services: Callable[[], Coroutine[object, object, bool]] = no_services
        self.stop_services: Callable[[], Coroutine[object, object, None]] = nothing_to_stop
        self.stop: Callable[[], object] = lambda: None
        self.read_config: Callable[[], Config] = lambda: config
        self.app_is_stopped = False
        self.is_drained = False  # for maintenance: no listener for AMQP, and no connection
        self._node = node
        self._config = config
        self._server = server

    def suspend_listeners(self) -> None:
        """Close the listeners for AMQP; connections stay."""
        for listener in self._server.listeners:
            listener.close()
        self._server.listeners.clear()

    async def resume_listeners(self) -> bool:
        """Open the listeners for AMQP; return False and log the reason if one cannot be opened."""
        self.is_drained = False
        return bool(self._server.listeners) or await self.listen() is not None

    def drain(self) -> None:
        """Put the node into maintenance mode, until `resume_listeners`: close the listeners and all connections."""
        self.is_drained = True
        self.suspend_listeners()
        self._server.close_connections(lambda one: True, "Node was put into maintenance mode")

    async def stop_app(self) -> None:
        """Stop listeners, services and connections, so that only the unix socket is served. Data are kept."""
        self.suspend_listeners()
        if not self.app_is_stopped:
            self.app_is_stopped = True
            await self.stop_services()
        self._server.close_connections(lambda one: True, "broker forced connection closure with reason 'shutdown'")

    async def start_app(self) -> str:
        """Start what `stop_app` has stopped; return the reason if that fails, else an empty text."""
        if not await self.resume_listeners():
            return "cannot listen; the log says why"
        if self.app_is_stopped:
            if not await self.start_services():
                return "a service cannot start; the log says why"
            self.app_is_stopped = False
        return ""

    def reset(self) -> None:
        """Delete all definitions and messages, and make the default virtual host and user, as for a new node.

        The application has to be stopped: connected clients would continue with deleted objects.
        """
        node, config = self._node, self._config
        new_user = default_user(config, self._server.report)  # first: a password that cannot be printed is an error
        for name in list(node.vhosts):
            node.update_vhost(name, protected=False)
            node.delete_vhost(name)
        for user in node.users.all():
            node.users.delete(user.name)
        for name in node.parameters.globals():
            if name != CLUSTER_ID:  # the hash and the mark of imports are of definitions that are gone
                node.parameters.clear_global(name)
        node.add_vhost(config.default_vhost)
        node.users.put(new_user)
        rights = config.default_permissions
        permission = (rights.configure, rights.write, rights.read)
        node.users.set_permission(config.default_user, config.default_vhost, *permission)
