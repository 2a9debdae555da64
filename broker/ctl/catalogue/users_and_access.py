"""Commands for users, permissions, virtual hosts, parameters and policies."""

from __future__ import annotations

from ..command import LISTING, Command
from ..request import Request

V = "[--vhost <vhost>]"
METADATA = "[--description <description>] [--tags <tags>] [--default-queue-type <type>]"
GRANT = "Done. Don't forget to grant the user permissions to some virtual hosts! See 'warrenctl help set_permissions'"


def tags_banner(request: Request) -> str:
    name, *tags = request.arguments
    return f'Setting tags for user "{name}" to [{", ".join(tags)}] ...'


def vhost_tags_banner(request: Request) -> str:
    name, *tags = request.arguments
    return f'Setting tags for virtual host "{name}" to [{", ".join(tags)}] ...'


def topic_banner(request: Request) -> str:
    user, *exchange = request.arguments
    on = f' on "{exchange[0]}"' if exchange else ""
    return f'Clearing topic permissions{on} for user "{user}" in vhost "{request.vhost_name}" ...'


def limits_banner(request: Request) -> str:
    if request.options.get("global"):
        return "Listing limits for all users ..."
    return f'Listing limits for user "{request.text("user", "guest")}" ...'


def vhost_limits_banner(request: Request) -> str:
    if request.options.get("global"):
        return "Listing limits for all vhosts ..."
    return f'Listing limits for vhost "{request.vhost_name}" ...'


def user_limit_banner(request: Request) -> str:
    user, limit = request.arguments
    return (
        f'Clearing all limits for user "{user}" ...'
        if limit == "all"
        else f'Clearing "{limit}" limit for user "{user}" ...'
    )


def policy_banner(request: Request) -> str:
    name, pattern, definition = request.arguments
    priority = request.text("priority", "0")
    kind = "operator policy override" if "operator" in request.command else "policy"
    return (
        f'Setting {kind} "{name}" for pattern "{pattern}" to "{definition}" '
        f'with priority "{priority}" for vhost "{request.vhost_name}" ...'
    )


def close_all_banner(request: Request) -> str:
    everywhere = f" to node {request.node} (across all vhosts)"
    where = everywhere if request.options.get("global") else f" in vhost {request.vhost_name}"
    return f"Closing all connections{where}, reason: {request.arguments[0]}..."


USERS = [
    Command(
        "add_user [--pre-hashed-password] <username> [<password>]",
        "Creates a new user in the internal database",
        'Adding user "{0}" ...',
        GRANT + " to learn more.",
    ),
    Command("authenticate_user <username> <password>", "Attempts to log a user in", 'Authenticating user "{0}" ...'),
    Command("change_password <username> <password>", "Changes a password", 'Changing password for user "{0}" ...'),
    Command("clear_password <username>", "Disables password login for a user", 'Clearing password for user "{0}" ...'),
    Command(
        "clear_user_limits <username> <limit_type>",
        "Clears limits of connections and channels of a user",
        user_limit_banner,
    ),
    Command("delete_user <username>", "Removes a user", 'Deleting user "{0}" ...'),
    Command("hash_password <password>", "Hashes a plaintext password", "Will hash password {0}"),
    Command("list_hashes", "Lists the password hashes that are supported", "Listing supported hash algorithms ..."),
    Command(f"list_user_limits [--user <username>] [--global] {LISTING}", "Displays limits of users", limits_banner),
    Command(f"list_users {LISTING}", "Lists all users", "Listing users ..."),
    Command(
        "set_user_limits <username> <definition>", "Sets user limits", 'Setting user limits to "{1}" for user "{0}" ...'
    ),
    Command("set_user_tags <username> [<tag>...]", "Sets user tags; none clears them", tags_banner),
]

ACCESS = [
    Command(
        f"clear_permissions {V} <username>",
        "Revokes permissions of a user in a virtual host",
        'Clearing permissions for user "{0}" in vhost "{vhost}" ...',
    ),
    Command(f"clear_topic_permissions {V} <username> [<exchange>]", "Clears topic permissions", topic_banner),
    Command(
        f"list_permissions {V} {LISTING}",
        "Lists the permissions in a virtual host",
        'Listing permissions for vhost "{vhost}" ...',
    ),
    Command(
        f"list_topic_permissions {V} {LISTING}",
        "Lists the topic permissions in a virtual host",
        'Listing topic permissions for vhost "{vhost}" ...',
    ),
    Command(
        f"list_user_permissions {LISTING} <username>",
        "Lists the permissions of a user",
        'Listing permissions for user "{0}" ...',
    ),
    Command(
        f"list_user_topic_permissions {LISTING} <username>",
        "Lists the topic permissions of a user",
        'Listing topic permissions for user "{0}" ...',
    ),
    Command(
        f"set_permissions {V} <username> <conf> <write> <read>",
        "Sets permissions of a user in a virtual host",
        'Setting permissions for user "{0}" in vhost "{vhost}" ...',
    ),
    Command(
        "set_permissions_globally <username> <conf> <write> <read>",
        "Sets permissions of a user in all virtual hosts",
        'Setting permissions for user "{0}" in all virtual hosts ...',
    ),
    Command(
        f"set_topic_permissions {V} <username> <exchange> <write> <read>",
        "Sets topic permissions of a user on an exchange",
        'Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
    ),
]

VHOSTS = [
    Command(f"add_vhost {METADATA} <vhost>", "Creates a virtual host", 'Adding vhost "{0}" ...'),
    Command(f"clear_vhost_limits {V}", "Clears the limits of a virtual host", 'Clearing vhost "{vhost}" limits ...'),
    Command("delete_vhost <vhost>", "Deletes a virtual host", 'Deleting vhost "{0}" ...'),
    Command(
        "disable_vhost_deletion_protection <vhost>",
        "Lets a virtual host be deleted again",
        'Removing deletion protection from virtual host "{0}" ...',
    ),
    Command(
        "enable_vhost_deletion_protection <vhost>",
        "Protects a virtual host from deletion",
        'Protecting virtual host "{0}" from deletion ...',
    ),
    Command(f"list_vhost_limits {V} [--global] {LISTING}", "Displays limits of virtual hosts", vhost_limits_banner),
    Command(f"list_vhosts {LISTING} [<column>, ...]", "Lists virtual hosts", "Listing vhosts ..."),
    Command(
        f"restart_vhost {V}", "Restarts a failed virtual host", "Trying to restart vhost '{vhost}' on node '{node}' ..."
    ),
    Command(
        f"set_vhost_limits {V} <definition>",
        "Sets virtual host limits",
        'Setting vhost limits to "{0}" for vhost "{vhost}" ...',
    ),
    Command("set_vhost_tags <vhost> <tag>...", "Sets tags of a virtual host", vhost_tags_banner),
    Command(f"trace_off {V}", "Disables message tracing", 'Stopping tracing for vhost "{vhost}" ...'),
    Command(f"trace_on {V}", "Enables message tracing", 'Starting tracing for vhost "{vhost}" ...'),
    Command(
        f"update_vhost_metadata {METADATA} <vhost>",
        "Updates description, tags and default queue type of a virtual host",
        'Updating metadata of vhost "{0}" ...',
    ),
]

PARAMETERS = [
    Command(
        "clear_global_parameter <name>",
        "Clears a global runtime parameter",
        'Clearing global runtime parameter "{0}" ...',
    ),
    Command(
        f"clear_parameter {V} <component_name> <name>",
        "Clears a runtime parameter",
        'Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...',
    ),
    Command(
        f"list_global_parameters {LISTING}",
        "Lists global runtime parameters",
        "Listing global runtime parameters ...",
    ),
    Command(
        f"list_parameters {V} {LISTING}",
        "Lists runtime parameters for a virtual host",
        'Listing runtime parameters for vhost "{vhost}" ...',
    ),
    Command(
        "set_global_parameter <name> <value>",
        "Sets a global runtime parameter",
        'Setting global runtime parameter "{0}" to "{1}" ...',
    ),
    Command(
        f"set_parameter {V} <component_name> <name> <value>",
        "Sets a runtime parameter",
        'Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...',
    ),
]

SET_POLICY = f"{V} [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>"
POLICIES = [
    Command(
        f"clear_operator_policy {V} <name>",
        "Clears an operator policy",
        'Clearing operator policy "{0}" on vhost "{vhost}" ...',
    ),
    Command(f"clear_policy {V} <name>", "Clears a policy", 'Clearing policy "{0}" on vhost "{vhost}" ...'),
    Command(
        f"list_operator_policies {V} {LISTING}",
        "Lists operator policies",
        'Listing operator policy overrides for vhost "{vhost}" ...',
    ),
    Command(f"list_policies {V} {LISTING}", "Lists policies", 'Listing policies for vhost "{vhost}" ...'),
    Command(
        f"list_policies_that_match {V} [--object-type <type>] {LISTING} <name>",
        "Lists all policies that match a queue or an exchange",
        'Listing policies that match "{0}" in vhost "{vhost}" ...',
    ),
    Command(f"set_operator_policy {SET_POLICY}", "Sets an operator policy", policy_banner),
    Command(f"set_policy {SET_POLICY}", "Sets or updates a policy", policy_banner),
]

GROUPS: dict[str, list[Command]] = {
    "Users": USERS,
    "Access Control": ACCESS,
    "Virtual hosts": VHOSTS,
    "Parameters": PARAMETERS,
    "Policies": POLICIES,
}
