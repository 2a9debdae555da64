"""Commands for permissions of users in virtual hosts, and on topic exchanges."""

from contextlib import suppress

from ..call import Call
from ..command import ACCESS, LISTING, V, get, in_vhost, keys
from ..errors import NO_USER, UNAVAILABLE, CommandError, NotFound, missing, no_user
from ..formats import Answer

RIGHTS = ("configure", "write", "read")
TOPIC_RIGHTS = ("exchange", "write", "read")


def set_patterns(call: Call, path: str, names: tuple[str, ...]) -> None:
    """Set the patterns of a user. Raises CommandError (67, 69), in RabbitMQ's words for these commands."""
    user, *values = call.arguments
    if call.find("users/{0}") is None:
        raise CommandError(NO_USER, f"User {user} does not exist")
    if call.find("vhosts/{vhost}") is None:
        raise CommandError(UNAVAILABLE, f"Virtual host {call.vhost_name} does not exist")
    call.put(path, dict(zip(names, values, strict=True)))


def set_permissions_globally(call: Call) -> None:
    call.user(call.arguments[0])
    patterns = dict(zip(RIGHTS, call.arguments[1:], strict=True))
    for vhost in call.get("vhosts", {"columns": "name"}):
        call.put("permissions/{name}/{0}", patterns, name=vhost["name"])


def clear_permissions(call: Call) -> None:
    """Clear permissions; an unknown user or virtual host is no error, as in RabbitMQ."""
    if call.find("permissions/{vhost}/{0}") is not None:
        call.delete("permissions/{vhost}/{0}")


def clear_topic_banner(call: Call) -> str:
    user, *exchange = call.arguments
    on = f' on "{exchange[0]}"' if exchange else ""
    return f'Clearing topic permissions{on} for user "{user}" in vhost "{call.vhost_name}" ...'


def clear_topic_permissions(call: Call) -> None:
    call.user(call.arguments[0])
    call.check_vhost()
    with suppress(NotFound):  # the user has none
        call.delete("topic-permissions/{vhost}/{0}" + "/{1}" * (len(call.arguments) - 1))


def of_user(call: Call, path: str) -> Answer:
    with missing(no_user(call.arguments[0])):
        return call.get(path)


# fmt: off
ACCESS(f"set_permissions {V} <username> <conf> <write> <read>: Sets permissions of a user in a virtual host",
       'Setting permissions for user "{0}" in vhost "{vhost}" ...',
       lambda call: set_patterns(call, "permissions/{vhost}/{0}", RIGHTS))
ACCESS(f"set_topic_permissions {V} <username> <exchange> <write> <read>: "
       "Sets topic permissions of a user on an exchange",
       'Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
       lambda call: set_patterns(call, "topic-permissions/{vhost}/{0}", TOPIC_RIGHTS))
ACCESS("set_permissions_globally <username> <conf> <write> <read>: Sets permissions of a user in all virtual hosts",
       'Setting permissions for user "{0}" in all virtual hosts ...', set_permissions_globally)
ACCESS(f"clear_permissions {V} <username>: Revokes permissions of a user in a virtual host",
       'Clearing permissions for user "{0}" in vhost "{vhost}" ...', clear_permissions)
ACCESS(f"clear_topic_permissions {V} <username> [<exchange>]: Clears topic permissions", clear_topic_banner,
       clear_topic_permissions)
ACCESS(f"list_permissions {V} {LISTING}: Lists the permissions in a virtual host",
       'Listing permissions for vhost "{vhost}" ...', in_vhost(get("vhosts/{vhost}/permissions")),
       columns=keys("user configure write read"))
ACCESS(f"list_topic_permissions {V} {LISTING}: Lists the topic permissions in a virtual host",
       'Listing topic permissions for vhost "{vhost}" ...', in_vhost(get("vhosts/{vhost}/topic-permissions")),
       columns=keys("user exchange write read"))
ACCESS(f"list_user_permissions {LISTING} <username>: Lists the permissions of a user",
       'Listing permissions for user "{0}" ...', lambda call: of_user(call, "users/{0}/permissions"),
       columns=keys("vhost configure write read"))
ACCESS(f"list_user_topic_permissions {LISTING} <username>: Lists the topic permissions of a user",
       'Listing topic permissions for user "{0}" ...', lambda call: of_user(call, "users/{0}/topic-permissions"),
       columns=keys("vhost exchange write read"))
