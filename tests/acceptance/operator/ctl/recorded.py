"""Command lines with the recorded output and exit status of rabbitmqctl 3.10, or 4.0 where they differ.

They run in this order, as each uses what earlier ones have created. PORTS is replaced by the broker's ports.
"""

from tests.support.warrenctl import Ready, ports

Line = tuple[str, int, str, str]
"""A command line; its exit status, standard output and standard error."""

ERROR = "Error:\n{}\n"
NO_PORT = "No listener for port 1 is active on node rabbit@here. Found listeners that use the following ports: PORTS\n"
IN_ORDER: list[Line] = [
    ("add_vhost v", 0, 'Adding vhost "v" ...\n', ""),
    ("add_vhost v", 0, 'Adding vhost "v" ...\n', ""),
    ("add_user u pw -q", 0, "", ""),
    ("add_user u pw", 70, 'Adding user "u" ...\n', ERROR.format('User "u" already exists')),
    ("change_password x pw", 67, 'Changing password for user "x" ...\n', ERROR.format('User "x" does not exist')),
    ("authenticate_user u pw", 0, 'Authenticating user "u" ...\nSuccess\n', ""),
    (
        "authenticate_user u bad",
        65,
        'Authenticating user "u" ...\n',
        ERROR.format("Error: failed to authenticate user \"u\"\nuser 'u' - invalid credentials"),
    ),
    ("set_user_tags u a b", 0, 'Setting tags for user "u" to [a, b] ...\n', ""),
    ("list_users -q", 0, "user\ttags\nguest\t[administrator]\nu\t[a, b]\n", ""),
    ("list_users -s", 0, "guest\t[administrator]\nu\t[a, b]\n", ""),
    ("set_user_tags u", 0, 'Setting tags for user "u" to [] ...\n', ""),
    ("set_permissions -p v u .* .* .*", 0, 'Setting permissions for user "u" in vhost "v" ...\n', ""),
    ("list_permissions -p v -q", 0, "user\tconfigure\twrite\tread\nu\t.*\t.*\t.*\n", ""),
    ("list_permissions -p x", 65, 'Listing permissions for vhost "x" ...\n', "Virtual host 'x' does not exist\n"),
    ("list_user_permissions u -q", 0, "vhost\tconfigure\twrite\tread\nv\t.*\t.*\t.*\n", ""),
    (
        "set_topic_permissions -p v u amq.topic a b",
        0,
        'Setting topic permissions on "amq.topic" for user "u" in vhost "v" ...\n',
        "",
    ),
    ("list_topic_permissions -p v -q", 0, "user\texchange\twrite\tread\nu\tamq.topic\ta\tb\n", ""),
    ("list_user_topic_permissions u -q", 0, "vhost\texchange\twrite\tread\nv\tamq.topic\ta\tb\n", ""),
    (
        "clear_topic_permissions -p v u amq.topic",
        0,
        'Clearing topic permissions on "amq.topic" for user "u" in vhost "v" ...\n',
        "",
    ),
    ("clear_permissions -p x u", 0, 'Clearing permissions for user "u" in vhost "x" ...\n', ""),
    ("clear_permissions -p v no", 0, 'Clearing permissions for user "no" in vhost "v" ...\n', ""),
    ("clear_permissions -p v u", 0, 'Clearing permissions for user "u" in vhost "v" ...\n', ""),
    (
        """set_parameter -p v nonsense o '{}'""",
        69,
        'Setting runtime parameter "o" for component "nonsense" to "{}" in vhost "v" ...\n',
        ERROR.format("Validation failed\n\ncomponent nonsense not found\n"),
    ),
    (
        """set_parameter federation-upstream origin '{"uri":"amqp://localhost:5672"}'""",
        0,
        'Setting runtime parameter "origin" for component "federation-upstream" '
        'to "{"uri":"amqp://localhost:5672"}" in vhost "/" ...\n',
        "",
    ),
    (
        "list_parameters -q",
        0,
        'component\tname\tvalue\nfederation-upstream\torigin\t{"uri":"amqp://localhost:5672"}\n',
        "",
    ),
    (
        "clear_parameter federation-upstream no",
        69,
        'Clearing runtime parameter "no" for component "federation-upstream" on vhost "/" ...\n',
        ERROR.format("Parameter does not exist"),
    ),
    ("clear_parameter federation-upstream origin -q", 0, "", ""),
    ("list_parameters -q", 0, "", ""),
    ("""set_global_parameter g '{"a":1}'""", 0, 'Setting global runtime parameter "g" to "{"a":1}" ...\n', ""),
    ("clear_global_parameter g", 0, 'Clearing global runtime parameter "g" ...\n', ""),
    (
        r"""set_policy exchange-federation "^federated\." '{"federation-upstream-set":"all"}' """
        "--priority 10 --apply-to exchanges",
        0,
        r'Setting policy "exchange-federation" for pattern "^federated\." to "{"federation-upstream-set":"all"}" '
        'with priority "10" for vhost "/" ...\n',
        "",
    ),
    (
        "list_policies",
        0,
        'Listing policies for vhost "/" ...\nvhost\tname\tpattern\tapply-to\tdefinition\tpriority\n'
        '/\texchange-federation\t^federated\\.\texchanges\t{"federation-upstream-set":"all"}\t10\n',
        "",
    ),
    ("clear_policy exchange-federation", 0, 'Clearing policy "exchange-federation" on vhost "/" ...\n', ""),
    (
        "clear_policy exchange-federation",
        69,
        'Clearing policy "exchange-federation" on vhost "/" ...\n',
        ERROR.format("Parameter does not exist"),
    ),
    (
        """set_policy -p v p ^a '{"zz":5}'""",
        69,
        'Setting policy "p" for pattern "^a" to "{"zz":5}" with priority "0" for vhost "v" ...\n',
        ERROR.format('Validation failed\n\n[{<<"zz">>,5}] are not recognised policy settings\n'),
    ),
    (
        """set_operator_policy -p v p ^a '{"max-length":5}'""",
        0,
        'Setting operator policy override "p" for pattern "^a" to "{"max-length":5}" '
        'with priority "0" for vhost "v" ...\n',
        "",
    ),
    (
        "list_parameters -p v -s",
        0,
        'operator_policy\tp\t{"pattern":"^a","definition":{"max-length":5},"priority":0,"apply-to":"all"}\n',
        "",
    ),
    ("clear_operator_policy -p v p", 0, 'Clearing operator policy "p" on vhost "v" ...\n', ""),
    ("""set_vhost_limits -p v '{"max-queues":5}' -q""", 0, "", ""),
    ("list_vhost_limits -p v", 0, 'Listing limits for vhost "v" ...\n{"max-queues":5}\n', ""),
    ("clear_vhost_limits -p v", 0, 'Clearing vhost "v" limits ...\n', ""),
    ("""set_user_limits u '{"max-channels":5}' -q""", 0, "", ""),
    ("list_user_limits --user u", 0, 'Listing limits for user "u" ...\n{"max-channels":5}\n', ""),
    ("clear_user_limits u max-channels", 0, 'Clearing "max-channels" limit for user "u" ...\n', ""),
    ("list_queues -p v", 0, "Timeout: 60.0 seconds ...\nListing queues for vhost v ...\n", ""),
    ("list_bindings -p v", 0, "Listing bindings for vhost v...\n", ""),
    ("list_consumers -p v", 0, "Listing consumers in vhost v ...\n", ""),
    ("list_connections", 0, "Listing connections ...\n", ""),
    ("list_channels", 0, "Listing channels ...\n", ""),
    ("trace_on -p v", 0, 'Starting tracing for vhost "v" ...\nTrace enabled for vhost v\n', ""),
    ("trace_off -p v", 0, 'Stopping tracing for vhost "v" ...\nTrace disabled for vhost v\n', ""),
    (
        "purge_queue -p v q",
        65,
        "Purging queue 'q' in vhost 'v' ...\n",
        "Object (queue, stream, exchange, etc) was not found\n",
    ),
    (
        "delete_queue -p v -e -u q",
        64,
        "Deleting queue 'q' on vhost 'v' if queue is empty and if queue is unused ...\n",
        ERROR.format("Queue not found"),
    ),
    ("set_vhost_tags v a b", 0, 'Setting tags for virtual host "v" to [a, b] ...\n', ""),
    ("list_vhosts name tags --formatter csv -s", 0, '"name","tags"\n"/","[]"\n"v","[a, b]"\n', ""),
    ("set_vhost_tags x a", 65, 'Setting tags for virtual host "x" to [a] ...\n', "Virtual host 'x' does not exist\n"),
    ("delete_queue -p v q", 64, "Deleting queue 'q' on vhost 'v' ...\n", ERROR.format("Queue not found")),
    ("close_connection '<x.1.2.3>' bye", 0, "Closing connection <x.1.2.3>, reason: bye...\n", ""),
    (
        "close_all_connections -p v bye",
        0,
        "Closing all connections in vhost v, reason: bye...\nClosed 0 connections\n",
        "",
    ),
    ("delete_user u", 0, 'Deleting user "u" ...\n', ""),
    ("delete_user u", 0, 'Deleting user "u" ...\n', ""),
    ("add_vhost v --formatter json", 0, '{"result":"ok","node":"rabbit@here"}\n', ""),
    ("delete_vhost v", 0, 'Deleting vhost "v" ...\n', ""),
    ("delete_vhost v", 65, 'Deleting vhost "v" ...\n', "Virtual host 'v' does not exist\n"),
    ("ping -q", 0, "Ping succeeded\n", ""),
    ("-n rabbit@localhost ping -q", 0, "Ping succeeded\n", ""),
    ("eval 'application:set_env(rabbit, channel_max, 512).'", 0, "ok\n", ""),
    ("eval '{ok, Max} = application:get_env(rabbit, channel_max), Max.'", 0, "512\n", ""),
    ("""eval 'application:set_env(rabbit, loopback_users, [<<"a">>]).'""", 0, "ok\n", ""),
    ("""eval '{ok, V} = application:get_env(rabbit, loopback_users), V.'""", 0, '[<<"a">>]\n', ""),
    ("eval 'rabbit_alarm:set_alarm({{resource_limit, disk, node()}, []}).'", 0, "ok\n", ""),
    ("alarms -q", 0, "Disk alarm on node rabbit@here\n", ""),
    ("eval 'rabbit_alarm:get_alarms().'", 0, "[{{resource_limit,disk,'rabbit@here'},[]}]\n", ""),
    ("eval 'rabbit_alarm:clear_alarm({resource_limit, disk, node()}).'", 0, "ok\n", ""),
    ("""add_user p 'a"b c\\d' -q""", 0, "", ""),
    ("set_user_tags p management t-u -q", 0, "", ""),
    # as Puppet checks a password, whose quotes it escapes, but not its backslashes
    (
        """eval 'rabbit_access_control:check_user_pass_login(list_to_binary("p"), list_to_binary("a\\"b c\\\\d")).'""",
        0,
        "{ok,{user,<<\"p\">>,[management,'t-u'],[{rabbit_auth_backend_internal,none}]}}\n",
        "",
    ),
    (
        """eval 'rabbit_access_control:check_user_pass_login(list_to_binary("p"), list_to_binary("a\\"bc\\\\d")).'""",
        0,
        '{refused,<<"p">>,"user \'~ts\' - invalid credentials",[<<"p">>]}\n',
        "",
    ),
    (
        """eval 'rabbit_access_control:check_user_pass_login(<<"no\\x41">>, <<"">>).'""",
        0,
        '{refused,<<"noA">>,"user \'~ts\' - invalid credentials",[<<"noA">>]}\n',
        "",
    ),
    ("delete_user p -q", 0, "", ""),
    ("eval 'application:get_env(rabbit, channel_max).'", 0, "{ok,512}\n", ""),
    ("eval 'application:get_env(rabbit, nothing).'", 70, "", ERROR.format("eval is not supported")),
    ('eval "node()."', 0, "rabbit@here\n", ""),
    ("eval 'rabbit_nodes:reached_target_cluster_size().'", 0, "true\n", ""),
    ("eval 'rabbit_mnesia:is_clustered().'", 0, "false\n", ""),
    ("eval 'rabbit_alarm:get_alarms().'", 0, "[]\n", ""),
    ("eval '1+1.'", 70, "", ERROR.format("eval is not supported")),
    (
        "check_if_node_is_quorum_critical -q",
        0,
        "Node rabbit@here seems to be the only one in a single node cluster, the check does not apply\n",
        "",
    ),
    (
        "check_if_node_is_quorum_critical --formatter json",
        0,
        '{"message":"Target node seems to be the only one in a single node cluster, the check does not apply",'
        '"result":"ok"}\n',
        "",
    ),
    (
        "check_if_node_is_mirror_sync_critical -q",
        0,
        "This command is DEPRECATED and is a no-op. It will be removed in a future version.\n",
        "",
    ),
    ("is_running -s", 0, "RabbitMQ on node rabbit@here is fully booted and running\n", ""),
    ("check_if_any_deprecated_features_are_used -q", 0, "Cluster reported no deprecated features in use\n", ""),
    ("quorum_status none -q", 65, "", "Object (queue, stream, exchange, etc) was not found\n"),
    (
        "list_node_auth_attempt_stats --by-source -q --formatter json",
        0,
        "[\n]\n",
        "",
    ),
    (
        "await_online_quorum_plus_one -q -t 5",
        0,
        "Target node seems to be the only one in a single node cluster, the command does not apply\n",
        "",
    ),
    ("check_port_listener 1 -q", 69, "", NO_PORT),
    ("federation_status --formatter json", 0, "[\n]\n", ""),
]


def expected(ready: Ready, lines: list[Line]) -> list[Line]:
    """Return the lines with the ports of that broker."""
    return [(line, status, out, err.replace("PORTS", ", ".join(ports(ready)))) for line, status, out, err in lines]
