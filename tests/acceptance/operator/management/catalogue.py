"""The routes that tools use, with the tag or permission that each requires, as `any` or `vh`."""

import re

TABLE = """
GET any /overview /whoami /cluster-name /extensions /feature-flags /deprecated-features /deprecated-features/used
GET any /connections /channels /consumers /vhosts /vhost-limits /healthchecks/node /healthchecks/node/{node}
GET mon /nodes /nodes/{node} /federation-links /federation-links/{vhost}
GET mon /federation-links/state/down /federation-links/{vhost}/state/down
GET vh /queues /queues/{vhost} /queues/{vhost}/{queue} /queues/{vhost}/{queue}/bindings /queues/detailed
GET vh /exchanges /exchanges/{vhost} /exchanges/{vhost}/{exchange} /bindings /bindings/{vhost}
GET vh /exchanges/{vhost}/{exchange}/bindings/source /exchanges/{vhost}/{exchange}/bindings/destination
GET vh /bindings/{vhost}/e/{exchange}/q/{queue} /bindings/{vhost}/e/{exchange}/q/{queue}/{props}
GET vh /bindings/{vhost}/e/{source}/e/{destination} /bindings/{vhost}/e/{source}/e/{destination}/{props}
GET vh /policies /policies/{vhost} /operator-policies /operator-policies/{vhost}
GET vh /aliveness-test/{vhost} /vhosts/{vhost}/connections /vhosts/{vhost}/channels
GET vh /vhost-limits/{vhost}
GET own /connections/{name} /channels/{channel} /connections/{name}/channels /connections/username/{user}
GET own /user-limits/{user}
DELETE own /connections/{name} /connections/username/{user}
PUT vh /queues/{vhost}/{queue} /exchanges/{vhost}/{exchange}
DELETE vh /queues/{vhost}/{queue} /queues/{vhost}/{queue}/contents /exchanges/{vhost}/{exchange}
DELETE vh /bindings/{vhost}/e/{exchange}/q/{queue}/{props} /bindings/{vhost}/e/{source}/e/{destination}/{props}
POST vh /queues/{vhost}/{queue}/get /exchanges/{vhost}/{exchange}/publish
POST vh /bindings/{vhost}/e/{exchange}/q/{queue} /bindings/{vhost}/e/{source}/e/{destination}
GET pol /policies/{vhost}/{name} /parameters /parameters/{component} /parameters/{component}/{vhost}
GET pol /parameters/{component}/{vhost}/{name} /global-parameters /global-parameters/{name}
PUT pol /policies/{vhost}/{name} /parameters/{component}/{vhost}/{name} /global-parameters/{name}
DELETE pol /policies/{vhost}/{name} /parameters/{component}/{vhost}/{name} /global-parameters/{name}
DELETE pol /federation-links/vhost/{vhost}/{id}/{node}/restart
GET adm /vhosts/{vhost} /users /users/{user} /permissions /permissions/{vhost}/{user} /users/{user}/permissions
GET adm /vhosts/{vhost}/permissions /topic-permissions /topic-permissions/{vhost}/{user}
GET adm /users/{user}/topic-permissions /vhosts/{vhost}/topic-permissions /user-limits /users/without-permissions
GET any /consumers/{vhost}
GET adm /operator-policies/{vhost}/{name}
GET adm /definitions /definitions/{vhost} /all-configuration /auth/hash_password/{password} /config/effective
GET adm /warren/trace/{vhost}
GET mon /warren/reports /warren/reports/{report} /warren/reports/{report}/page /warren/reports/{report}/run
DELETE adm /reset /reset/{node}
PUT adm /vhosts/{vhost} /users/{user} /permissions/{vhost}/{user} /topic-permissions/{vhost}/{user}
PUT adm /operator-policies/{vhost}/{name} /vhost-limits/{vhost}/{limit} /user-limits/{user}/{limit} /cluster-name
PUT adm /feature-flags/{name}/enable
DELETE adm /vhosts/{vhost} /users/{user} /permissions/{vhost}/{user} /topic-permissions/{vhost}/{user}
DELETE adm /topic-permissions/{vhost}/{user}/{exchange} /operator-policies/{vhost}/{name}
DELETE adm /vhost-limits/{vhost}/{limit} /user-limits/{user}/{limit}
POST adm /users/bulk-delete /definitions /definitions/{vhost} /all-configuration
GET none /version /health/checks/is-in-service /health/checks/below-node-connection-limit
GET none /health/checks/ready-to-serve-clients
GET any /health/checks/alarms /health/checks/local-alarms /health/checks/port-listener/{port}
GET any /health/checks/protocol-listener/{protocol} /health/checks/virtual-hosts
GET any /health/checks/certificate-expiration/{within}/{unit} /health/checks/node-is-quorum-critical
GET any /health/checks/quorum-queues-without-elected-leaders/all-vhosts
GET any /health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}
GET any /health/checks/metadata-store/initialized /health/checks/metadata-store/initialized/with-data
GET any /health/checks/reached-target-cluster-size
"""


def shape(path: str) -> str:
    """Return the path without the names of its variable segments."""
    return re.sub(r"{\w+}", "{}", path)


CATALOGUE = {
    (method, shape(path)): guard
    for method, guard, *paths in (line.split() for line in TABLE.split("\n") if line)
    for path in paths
}
