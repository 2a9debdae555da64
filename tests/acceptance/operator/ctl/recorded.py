"""Command lines with the recorded output and exit status of rabbitmqctl 3.10, or 4.0 where they differ.

They run in this order, as each uses what earlier ones have created. PORTS is replaced by the broker's ports.
"""

from typing import NamedTuple

from tests.support.warrenctl import Ready, ports


class Line(NamedTuple):
    """A command line; its standard output, exit status and standard error."""

    line: str
    out: str = ""
    status: int = 0
    err: str = ""


ERROR = "Error:\n{}\n"
NO_PORT = "No listener for port 1 is active on node rabbit@here. Found listeners that use the following ports: PORTS\n"
# fmt: off
IN_ORDER = [
    Line("add_vhost v", 'Adding vhost "v" ...\n'),
    Line("add_vhost v", 'Adding vhost "v" ...\n'),
    Line("add_user u pw -q"),
    Line("add_user u pw", 'Adding user "u" ...\n', 70, ERROR.format('User "u" already exists')),
    Line("change_password x pw", 'Changing password for user "x" ...\n', 67, ERROR.format('User "x" does not exist')),
    Line("authenticate_user u pw", 'Authenticating user "u" ...\nSuccess\n'),
    Line("authenticate_user u bad", 'Authenticating user "u" ...\n', 65,
         ERROR.format("Error: failed to authenticate user \"u\"\nuser 'u' - invalid credentials")),
    Line("set_user_tags u a b", 'Setting tags for user "u" to [a, b] ...\n'),
    Line("list_users -q", "user\ttags\nguest\t[administrator]\nu\t[a, b]\n"),
    Line("list_users -s", "guest\t[administrator]\nu\t[a, b]\n"),
    Line("set_user_tags u", 'Setting tags for user "u" to [] ...\n'),
    Line("set_permissions -p v u .* .* .*", 'Setting permissions for user "u" in vhost "v" ...\n'),
    Line("list_permissions -p v -q", "user\tconfigure\twrite\tread\nu\t.*\t.*\t.*\n"),
    Line("list_permissions -p x", 'Listing permissions for vhost "x" ...\n', 65, "Virtual host 'x' does not exist\n"),
    Line("list_user_permissions u -q", "vhost\tconfigure\twrite\tread\nv\t.*\t.*\t.*\n"),
    Line("set_topic_permissions -p v u amq.topic a b",
         'Setting topic permissions on "amq.topic" for user "u" in vhost "v" ...\n'),
    Line("list_topic_permissions -p v -q", "user\texchange\twrite\tread\nu\tamq.topic\ta\tb\n"),
    Line("list_user_topic_permissions u -q", "vhost\texchange\twrite\tread\nv\tamq.topic\ta\tb\n"),
    Line("clear_topic_permissions -p v u amq.topic",
         'Clearing topic permissions on "amq.topic" for user "u" in vhost "v" ...\n'),
    Line("clear_permissions -p x u", 'Clearing permissions for user "u" in vhost "x" ...\n'),
    Line("clear_permissions -p v no", 'Clearing permissions for user "no" in vhost "v" ...\n'),
    Line("clear_permissions -p v u", 'Clearing permissions for user "u" in vhost "v" ...\n'),
    Line("list_user_permissions u -q"),
    Line("""set_parameter -p v nonsense o '{}'""",
         'Setting runtime parameter "o" for component "nonsense" to "{}" in vhost "v" ...\n', 69,
         ERROR.format("Validation failed\n\ncomponent nonsense not found\n")),
    Line("""set_parameter federation-upstream origin '{"uri":"amqp://localhost:5672"}'""",
         ('Setting runtime parameter "origin" for component "federation-upstream" '
         'to "{"uri":"amqp://localhost:5672"}" in vhost "/" ...\n')),
    Line("list_parameters -q",
         'component\tname\tvalue\nfederation-upstream\torigin\t{"uri":"amqp://localhost:5672"}\n'),
    Line("clear_parameter federation-upstream no",
         'Clearing runtime parameter "no" for component "federation-upstream" on vhost "/" ...\n', 69,
         ERROR.format("Parameter does not exist")),
    Line("clear_parameter federation-upstream origin -q"),
    Line("list_parameters -q"),
    Line("""set_global_parameter g '{"a":1}'""", 'Setting global runtime parameter "g" to "{"a":1}" ...\n'),
    Line("clear_global_parameter g", 'Clearing global runtime parameter "g" ...\n'),
    Line((r"""set_policy exchange-federation "^federated\." '{"federation-upstream-set":"all"}' """
         "--priority 10 --apply-to exchanges"),
         (r'Setting policy "exchange-federation" for pattern "^federated\." to "{"federation-upstream-set":"all"}" '
         'with priority "10" for vhost "/" ...\n')),
    Line("list_policies", ('Listing policies for vhost "/" ...\nvhost\tname\tpattern\tapply-to\tdefinition\tpriority\n'
         '/\texchange-federation\t^federated\\.\texchanges\t{"federation-upstream-set":"all"}\t10\n')),
    Line("clear_policy exchange-federation", 'Clearing policy "exchange-federation" on vhost "/" ...\n'),
    Line("clear_policy exchange-federation", 'Clearing policy "exchange-federation" on vhost "/" ...\n', 69,
         ERROR.format("Parameter does not exist")),
    Line("""set_policy -p v p ^a '{"zz":5}'""",
         'Setting policy "p" for pattern "^a" to "{"zz":5}" with priority "0" for vhost "v" ...\n', 69,
         ERROR.format('Validation failed\n\n[{<<"zz">>,5}] are not recognised policy settings\n')),
    Line("""set_operator_policy -p v p ^a '{"max-length":5}'""",
         ('Setting operator policy override "p" for pattern "^a" to "{"max-length":5}" '
         'with priority "0" for vhost "v" ...\n')),
    Line("list_parameters -p v -s",
         'operator_policy\tp\t{"pattern":"^a","definition":{"max-length":5},"priority":0,"apply-to":"all"}\n'),
    Line("list_operator_policies -p v -s", 'v\tp\t^a\tall\t{"max-length":5}\t0\n'),
    Line("clear_operator_policy -p v p", 'Clearing operator policy "p" on vhost "v" ...\n'),
    Line("""set_vhost_limits -p v '{"max-queues":5}' -q"""),
    Line("list_vhost_limits -p v", 'Listing limits for vhost "v" ...\n{"max-queues":5}\n'),
    Line("clear_vhost_limits -p v", 'Clearing vhost "v" limits ...\n'),
    Line("""set_user_limits u '{"max-channels":5}' -q"""),
    Line("list_user_limits --user u", 'Listing limits for user "u" ...\n{"max-channels":5}\n'),
    Line("clear_user_limits u max-channels", 'Clearing "max-channels" limit for user "u" ...\n'),
    Line("list_user_limits --user u -q", "{}\n"),
    Line("""set_user_limits u '{"max-channels":5}' -q"""),
    Line("clear_user_limits u all -q"),
    Line("list_user_limits --user u -q", "{}\n"),
    Line("list_queues -p v", "Timeout: 60.0 seconds ...\nListing queues for vhost v ...\n"),
    Line("list_bindings -p v", "Listing bindings for vhost v...\n"),
    Line("list_consumers -p v", "Listing consumers in vhost v ...\n"),
    Line("list_connections", "Listing connections ...\n"),
    Line("list_channels", "Listing channels ...\n"),
    Line("restart_vhost -p v -q", "Vhost 'v' is already running on node 'rabbit@here'\n"),
    Line("trace_on -p v", 'Starting tracing for vhost "v" ...\nTrace enabled for vhost v\n'),
    Line("trace_off -p v", 'Stopping tracing for vhost "v" ...\nTrace disabled for vhost v\n'),
    Line("purge_queue -p v q", "Purging queue 'q' in vhost 'v' ...\n", 65,
         "Object (queue, stream, exchange, etc) was not found\n"),
    Line("delete_queue -p v -e -u q", "Deleting queue 'q' on vhost 'v' if queue is empty and if queue is unused ...\n",
         64, ERROR.format("Queue not found")),
    Line("set_vhost_tags v a b", 'Setting tags for virtual host "v" to [a, b] ...\n'),
    Line("list_vhosts name tags --formatter csv -s", '"name","tags"\n"/","[]"\n"v","[a, b]"\n'),
    Line("set_vhost_tags x a", 'Setting tags for virtual host "x" to [a] ...\n', 65,
         "Virtual host 'x' does not exist\n"),
    Line("delete_queue -p v q", "Deleting queue 'q' on vhost 'v' ...\n", 64, ERROR.format("Queue not found")),
    Line("close_connection '<x.1.2.3>' bye", "Closing connection <x.1.2.3>, reason: bye...\n"),
    Line("close_all_connections -p v bye",
         "Closing all connections in vhost v, reason: bye...\nClosed 0 connections\n"),
    Line("delete_user u", 'Deleting user "u" ...\n'),
    Line("delete_user u", 'Deleting user "u" ...\n'),
    Line("add_vhost v --formatter json", '{"result":"ok","node":"rabbit@here"}\n'),
    Line("delete_vhost v", 'Deleting vhost "v" ...\n'),
    Line("delete_vhost v", 'Deleting vhost "v" ...\n', 65, "Virtual host 'v' does not exist\n"),
    Line("ping -q", "Ping succeeded\n"),
    Line("-n rabbit@localhost ping -q", "Ping succeeded\n"),
    Line("eval 'application:set_env(rabbit, channel_max, 512).'", "ok\n"),
    Line("eval '{ok, Max} = application:get_env(rabbit, channel_max), Max.'", "512\n"),
    Line("""eval 'application:set_env(rabbit, loopback_users, [<<"a">>]).'""", "ok\n"),
    Line("""eval '{ok, V} = application:get_env(rabbit, loopback_users), V.'""", '[<<"a">>]\n'),
    Line("eval 'rabbit_alarm:set_alarm({{resource_limit, disk, node()}, []}).'", "ok\n"),
    Line("alarms -q", "Disk alarm on node rabbit@here\n"),
    Line("eval 'rabbit_alarm:get_alarms().'", "[{{resource_limit,disk,'rabbit@here'},[]}]\n"),
    Line("eval 'rabbit_alarm:clear_alarm({resource_limit, disk, node()}).'", "ok\n"),
    Line("""add_user p 'a"b c\\d' -q"""),
    Line("set_user_tags p management t-u -q"),
    # as Puppet checks a password, whose quotes it escapes, but not its backslashes
    Line("""eval 'rabbit_access_control:check_user_pass_login(list_to_binary("p"), list_to_binary("a\\"b c\\\\d")).'""",
         "{ok,{user,<<\"p\">>,[management,'t-u'],[{rabbit_auth_backend_internal,none}]}}\n"),
    Line("""eval 'rabbit_access_control:check_user_pass_login(list_to_binary("p"), list_to_binary("a\\"bc\\\\d")).'""",
         '{refused,<<"p">>,"user \'~ts\' - invalid credentials",[<<"p">>]}\n'),
    Line("""eval 'rabbit_access_control:check_user_pass_login(<<"no\\x41">>, <<"">>).'""",
         '{refused,<<"noA">>,"user \'~ts\' - invalid credentials",[<<"noA">>]}\n'),
    Line("delete_user p -q"),
    Line("eval 'application:get_env(rabbit, channel_max).'", "{ok,512}\n"),
    Line("eval 'application:get_env(rabbit, nothing).'", "", 70, ERROR.format("eval is not supported")),
    Line('eval "node()."', "rabbit@here\n"),
    Line("eval 'rabbit_nodes:reached_target_cluster_size().'", "true\n"),
    Line("eval 'rabbit_mnesia:is_clustered().'", "false\n"),
    Line("eval 'rabbit_alarm:get_alarms().'", "[]\n"),
    Line("eval '1+1.'", "", 70, ERROR.format("eval is not supported")),
    Line("check_if_node_is_quorum_critical -q",
         "Node rabbit@here seems to be the only one in a single node cluster, the check does not apply\n"),
    Line("check_if_node_is_quorum_critical --formatter json",
         ('{"message":"Target node seems to be the only one in a single node cluster, the check does not apply",'
         '"result":"ok"}\n')),
    Line("check_if_node_is_mirror_sync_critical -q",
         "This command is DEPRECATED and is a no-op. It will be removed in a future version.\n"),
    Line("is_running -s", "RabbitMQ on node rabbit@here is fully booted and running\n"),
    Line("check_if_any_deprecated_features_are_used -q", "Cluster reported no deprecated features in use\n"),
    Line("quorum_status none -q", "", 65, "Object (queue, stream, exchange, etc) was not found\n"),
    Line("list_node_auth_attempt_stats --by-source -q --formatter json", "[\n]\n"),
    Line("await_online_quorum_plus_one -q -t 5",
         "Target node seems to be the only one in a single node cluster, the command does not apply\n"),
    Line("check_port_listener 1 -q", "", 69, NO_PORT),
    Line("federation_status --formatter json", "[\n]\n"),
]
# fmt: on


def expected(ready: Ready) -> list[tuple[str, int, str, str]]:
    """Return each line with what it prints and returns at that broker."""
    return [(one.line, one.status, one.out, one.err.replace("PORTS", ", ".join(ports(ready)))) for one in IN_ORDER]
