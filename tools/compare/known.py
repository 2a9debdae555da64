"""Known differences: patterns that find them, and the reason of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .documents import Difference


@dataclass(frozen=True)
class Known:
    """A known difference. `subject`, `place`, `warren` and `reference` are patterns in which * matches anything."""

    subject: str
    place: str
    reason: str
    warren: str = "*"
    reference: str = "*"

    def covers(self, one: Difference) -> bool:
        pairs = (
            (self.subject, one.subject),
            (self.place, one.place),
            (self.warren, one.warren),
            (self.reference, one.reference),
        )
        return all(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern, text in pairs)


def places(subject: str, reason: str, *names: str) -> Iterator[Known]:
    """Yield an entry for each of several places in the answers of the same routes."""
    return (Known(subject, name, reason) for name in names)


def subjects(place: str, reason: str, *names: str) -> Iterator[Known]:
    """Yield an entry for each of several routes or commands that differ at the same place."""
    return (Known(name, place, reason) for name in names)


NEWER = "a route or field of RabbitMQ 4.1 to 4.3, whose API Warren speaks"
ZERO = "RabbitMQ leaves a figure out of which it has had no report; Warren says 0"
SHARED = "counters of the whole broker; others use the reference"
ERLANG = "a part of Erlang or of RabbitMQ's libraries that Warren does not have"
ONE_NODE = "Warren is one node: there are no others to reach, to add or to move replicas to"
UNCHECKED = "RabbitMQ takes a value of the wrong type or size unchecked; Warren says what is wrong"
FOLLOWS = "follows from the request before, which only one of the two took"
OWN = "a field of Warren's own"
REPORTED = "RabbitMQ leaves it out of a queue of which it has had no report yet"
NO_AMQP_1 = "RabbitMQ 4 speaks AMQP 1.0 on the same port; Warren does not speak it, and says so"
OWN_TYPES = "exchange types that each broker brings"
TEXT = "the same refusal in words instead of an Erlang term, or with the place of the fault"
STRICTER = "Warren shows limits of users to administrators and to the user alone"
DISABLED = "with disable_stats RabbitMQ answers for channels with a refusal and for others with less than it knows"
NO_VHOST = "RabbitMQ lists nothing of a virtual host that does not exist; Warren says that it does not"
USAGE = "the usage names the options that the tool has, and each tool its own"
NO_COMMAND = "a command of a plugin that the reference's tool has not loaded, or of a newer RabbitMQ"
DEFINITIONS = "an error in definitions names the object"
LISTENERS = "ports and protocols of each broker's listeners"
LIMITS = "limits are written as a list in all formats"
FILES = "RabbitMQ looks for a file there: 400 where the virtual host has a slash in its name, 404 where not"
CLUSTER_NAME = "the name that a cluster gives itself"


FIELDS: tuple[Known, ...] = (
    Known("*", "*.protected_from_deletion", NEWER),
    Known("*", "*", ZERO, "0", "no such field"),
    Known("*", "*_details", ZERO, "{'rate': *}", "no such field"),
    Known("*", "*.message_stats*", "figures of the moment, which come after the next report", "*", "*"),
    Known("GET /version*", "body", "the version that the broker says it is of"),
    Known("*", "*.hashing_algorithm", "passwords are hashed with argon2id, which RabbitMQ lacks", "'argon2id'"),
    Known("*", "*.user_who_performed_action", "predeclared exchanges are the broker's own", "'rmq-internal'"),
    Known("GET /nodes*", "*.storage", OWN, "*", "no such field"),
    Known("*", "*.guarantee", OWN, "*", "no such field"),
    Known("*", "*.replicated", OWN, "*", "no such field"),
    Known("*", "*.head_message_timestamp", "RabbitMQ looks at unacknowledged messages too", "*", "*"),
    Known("*", "*.oldest_ready_message_age", "RabbitMQ does not know it", "*", "no such field"),
    Known("*", "*.messages_paged_out", "RabbitMQ counts messages as paged out that were written", "*", "*"),
    Known("*", "*.message_bytes_paged_out", "RabbitMQ counts messages as paged out that were written", "*", "*"),
    Known("*", "*.single_active_consumer_tag", "RabbitMQ has it for quorum queues without single active consumer too"),
    Known("*", "*.exclusive_consumer_tag", "what is unset is null in some lists of RabbitMQ and absent in others"),
    Known("*", "*[].online", DISABLED, "*", "None"),
    Known("*", "*[].exclusive", DISABLED, "*", "None"),
    Known("*disable_stats=true*", "*.operator_policy", DISABLED),
    Known("*disable_stats=true*", "*.policy", DISABLED),
    Known("*[after *", "*.operator_policy", DISABLED),
    Known("*[after *", "*.policy", DISABLED),
    Known("GET /channels [disable_stats*", "status", DISABLED),
    Known("GET /connections [disable_stats*", "body*", DISABLED),
    Known("GET /vhosts [disable_stats*", "body[].messages*", DISABLED),
    Known("GET /vhosts [columns*", "body[].*", "RabbitMQ does not choose the columns of virtual hosts"),
    Known("GET /connections/{*", "body.*", "RabbitMQ writes null as '' in a single connection", "None", "''"),
    Known("GET /definitions*", "body.global_parameters[]*", "identifiers of a cluster, which each has of its own"),
    Known("GET /all-configuration*", "body.global_parameters[]*", "identifiers of a cluster"),
    *places("*", CLUSTER_NAME, "body.explanation", "body.original_cluster_name"),
    Known("*/cluster-name*", "body.name", CLUSTER_NAME),
    *places(
        "*", "a PUT without a body empties description and tags in RabbitMQ", "*.tags[]*", "*.tags", "*.description"
    ),
    Known("*[after *", "body.tracing", "RabbitMQ remembers tracing of a virtual host that was deleted"),
    *places("*", OWN_TYPES, "body.exchange_types[]*", "body.object_totals.exchanges", "body.enabled_plugins[]*"),
    *places("GET /overview*", SHARED, "body.churn_rates*", "body.object_totals*", "body.queue_totals*"),
    *places("GET /nodes*", SHARED, "body.*_created", "body.*_closed", "body.*_declared", "body.*_deleted"),
    *places("GET /nodes*", SHARED, "body[].*_created", "body[].*_closed", "body[].*_declared", "body[].*_deleted"),
    *places("GET /nodes*", OWN, "*.event_loop*", "*.journal*", "*.build", "*.not_restored", "*.os"),
    *places("GET /queues*", REPORTED, "*.effective_policy_definition", "*.storage_version", "*.garbage_collection"),
    *(Known("GET /queues*", place, REPORTED, reference="no such field") for place in ("*.policy", "*.operator_policy")),
    *subjects("status", NO_AMQP_1, "GET /health/checks/protocol-listener/{protocol} [amqp1*"),
    *places("GET /nodes*", ERLANG, "*.applications[]*", "*_avg_time", "*.contexts[]*"),
    *places("GET /nodes*", ERLANG, "*.auth_mechanisms[]*", "*.cluster_links*", "*.memory.*", "body.memory*", "*ets*"),
    *places("GET /nodes*", SHARED, "*_count", "*_bytes", "*.rates_mode", "*.exchange_types[]*", "*.enabled_plugins[]*"),
    *places("GET /overview*", ERLANG, "body.listeners[]*", "body.contexts[]*", "body.release_series_support_status"),
    *places("GET /health*", LISTENERS, "body.ports*", "body.protocols*"),
    Known("GET /extensions*", "body*", "pages that a user interface would load"),
    Known("GET /config/effective*", "*", "the configuration of each broker"),
    Known("GET /feature-flags*", "body*", "feature flags of each version"),
    Known("GET /auth/attempts*", "body*", SHARED),
    Known("GET /federation-links*", "body*", "a link's state at a moment"),
)
ROUTES: tuple[Known, ...] = (
    *subjects(
        "*",
        NEWER,
        *("* /health/checks/quorum-queues-without-elected-leaders/*", "* /health/checks/metadata-store/*"),
        *("* /health/checks/reached-target-cluster-size*", "* /health/checks/is-in-service*"),
        *("* /health/checks/below-node-connection-limit*", "* /health/checks/ready-to-serve-clients*"),
        *("* /vhosts/{vhost}/deletion/protection*", "GET /health/checks/protocol-listener/{protocol} [*,*"),
    ),
    *subjects(
        "*",
        "a route of RabbitMQ 3, which older tools ask",
        *("* /health/checks/node-is-mirror-sync-critical*",),
    ),
    *subjects("*", "a check of Warren's own", "* /health/checks/stored-definitions*"),
    *subjects("*", ERLANG, "* /nodes/{node}/memory/ets*", "* /queues/quorum/*", "GET /nodes/{node}/memory*"),
    Known("* /health/checks/protocol-listener/{protocol} [clustering]", "*", ONE_NODE),
    *subjects("*", ONE_NODE, "POST /vhosts/{vhost}/start/{node}*", "PUT /queues/{vhost}/{queue} [node]"),
    *subjects("*", STRICTER, "GET /user-limits [as *", "GET /user-limits/{user} [as *"),
    Known("OPTIONS /", "*", "Warren's page about its API", "*", "*"),
    Known("OPTIONS / [allow]", "*", "Warren's page about its API"),
    Known(
        "OPTIONS *",
        "header allow",
        "methods that RabbitMQ's table names and then refuses, or HEAD, which it leaves out",
    ),
    Known("GET /federation-links/{vhost}/{list}*", "*", FILES),
    Known("* /federation-links/vhost/*", "*", "restarting a link changes something: monitoring may look alone"),
    Known("*", "body", "RabbitMQ sends no text with it", "{'error': *", "None"),
    Known("*", "header content-type", "RabbitMQ sends no text with it", "'application/json'", "None"),
    Known("*", "status", "RabbitMQ fails with 500; Warren answers", "*", "500 *"),
    Known("* [after *", "status", FOLLOWS, "404 *", "20*"),
    Known("* [after *", "status", FOLLOWS, "20*", "404 *"),
    Known(
        "GET /queues/{vhost}/*/bindings*", "body[]*", "RabbitMQ makes up the default binding of a queue there is not"
    ),
    Known("* [as compare-weak]", "body.reason", "refusals of rights have one text", "'Access refused.'"),
    *subjects(
        "status",
        UNCHECKED,
        *("*[quorum delivery limit text]", "*[key a number]", "*[key null]", "*[key too long]", "*[name 'qqqqq*"),
        *("*[description a number]", "*[hash short]", "*[tags a list of numbers]", "*[priority a fraction]"),
        *("*[priority too large]", "*[count -1]", "*[count a fraction]", "*[truncate -1]"),
    ),
    Known("PUT /users/{user} [*null]", "status", "null counts as absent"),
    Known(
        "PUT /policies/{vhost}/{name} [ha-mode]", "status", "definitions of RabbitMQ 3 with mirrored queues are taken"
    ),
    Known("DELETE /queues/{vhost}/{queue} [as compare-monitor]", "status", "RabbitMQ fails, and has deleted it"),
    Known("DELETE /user-limits/{user}/{limit} [unknown limit]", "status", "RabbitMQ does not look at the name"),
    *places("DELETE /vhost-limits/*", "the same status in other words", "body.error", "body.reason"),
    *places("DELETE /user-limits/*", "the same status in other words", "body.error", "body.reason"),
    *subjects("body.reason", DEFINITIONS, "POST /definitions*"),
    *subjects(
        "body.reason",
        TEXT,
        *("*[bad pattern]", "*[hash no base64]", "*[type a number]", "*[name 'qqqq*", "* number]", "*[ack-mode]"),
        *("*[operator_policy]", "*[vhost-limits]", "*[federation]", "*[x x]", "*boolean]", "*consumer text]"),
    ),
)
AMQP: tuple[Known, ...] = (
    Known("amqp *quorum delivery limit", "outcome", UNCHECKED),
    Known("amqp *delivery limit of a classic queue", "outcome", "Warren counts deliveries of classic queues too"),
)
COMMANDS: tuple[Known, ...] = (
    Known("ctl *", "stderr", USAGE, "*{tool} [--node*"),
    *subjects("*", NO_COMMAND, "ctl list_policies_that_match*", "ctl federation_status*", "ctl restart_federation*"),
    *subjects("*", ONE_NODE, "ctl forget_cluster_node*", "ctl join_cluster*", "ctl -n nosuch*"),
    *subjects("*", "Warren evaluates a few known expressions alone", "ctl eval*"),
    *subjects("*", "RabbitMQ takes an unknown queue type, and fails later", "ctl add_vhost compare-ctl3*"),
    *subjects("*", "a formatter that there is not is bad usage", "ctl *--formatter nosuch"),
    *subjects(
        "*",
        "an unknown user has an error text, and the status 67 of sysexits",
        *("ctl clear_password compare-nosuch", "ctl set_user_limits compare-nosuch*"),
        *("ctl list_user_permissions compare-nosuch", "ctl list_user_limits --user compare-nosuch"),
    ),
    *subjects("*", NO_VHOST, "ctl list_* -p compare-nosuch*"),
    *subjects("stderr", TEXT, "ctl set_permissions*", "ctl set_topic_permissions*", "ctl set_policy*"),
    *subjects("stderr", TEXT, "ctl set_disk_free_limit*", "ctl set_vm_memory_high_watermark*"),
    Known("ctl *", "stderr", TEXT, "*JSON decoding error*"),
    *subjects("stdout*", "a table has a head without rows too", "ctl list_user_topic_permissions*"),
    *subjects(
        "stdout*", "limits are written as a list in all formats", "ctl list_vhost_limits*", "ctl list_user_limits*"
    ),
    Known("ctl *--formatter json*", "stdout*.arguments", "arguments are an object, as in definitions", "{*", "[*"),
    *subjects("stdout", "lines are drawn as the reference's terminal has them", "ctl *--formatter pretty_table*"),
    *subjects("stdout", "terms are written on one line, without the types of arguments", "ctl *--formatter erlang"),
    *subjects("*", "--no-table-headers is taken with csv too", "ctl *--formatter csv --no-table-headers"),
    *subjects("*", "there is no epmd; ports are tried by address", "ctl *ping", "ctl *check_port_connectivity"),
    *subjects(
        "*", "ports and protocols of each broker's listeners", "ctl *check_port_listener*", "ctl *protocol_listener*"
    ),
    *subjects("*", "the reference's Elixir warns of its own code", "ctl *check_certificate_expiration*"),
    *subjects("stderr", "plugins of each broker", "ctl *is_enabled*"),
    *subjects("*", "the level none is set by log.console alone", "ctl set_log_level nosuch"),
    *subjects(
        "stderr",
        USAGE,
        "ctl nosuch",
        "ctl rabbitmq-diagnostics nosuch",
        "ctl list_queues -p",
        "ctl list_queues --nosuch",
    ),
)
KNOWN: tuple[Known, ...] = (*FIELDS, *ROUTES, *AMQP, *COMMANDS)


def reason_of(one: Difference, table: tuple[Known, ...] = KNOWN) -> str | None:
    """Return the reason of the first entry that matches, or None."""
    return next((entry.reason for entry in table if entry.covers(one)), None)
