"""The list of acceptance checks of the HTTP API, with the tests that cover each."""

MANAGEMENT = "tests/acceptance/operator/management/test_"
PROMETHEUS = "tests/acceptance/operator/prometheus/test_"
CTL = "tests/acceptance/operator/ctl/test_"
CLIENTS = "tests/clients/test_"
LINKS = f"{CLIENTS}federation_links.py::"

# Number of the check -> tests, as file::name; a file of this folder by its short name, others by their stem.
CHECKS: dict[int, tuple[str, ...]] = {
    # HTTP core
    1: ("queues::test_a_queue_is_declared_once_and_found_the_same",),
    2: (
        "http_requests::test_a_slash_at_the_end_counts_for_nothing",
        "users::test_a_user_is_made_shown_changed_and_deleted",
    ),
    3: ("queues::test_names_are_decoded_once_and_a_plus_is_a_plus", "routes::test_a_path_is_cut_before_it_is_decoded"),
    4: ("access::test_a_request_without_credentials_gets_a_challenge",),
    5: ("access::test_a_wrong_password_is_not_authorized",),
    6: ("access::test_a_user_without_a_tag_is_no_management_user",),
    7: ("bad_input::test_a_user_without_the_tag_gets_its_name",),
    8: ("queues::test_lists_are_by_virtual_host_and_name_and_only_of_what_the_user_sees",),  # 401
    9: (
        "access::test_guest_is_let_in_from_this_machine_alone",
        "access::test_guest_is_let_in_from_everywhere_where_that_is_configured",
    ),
    10: (
        "http_requests::test_an_unknown_route_is_an_object_that_is_not_there",
        "queues::test_a_queue_is_deleted_unless_it_is_needed",
    ),
    11: (
        "http_requests::test_an_unknown_route_is_an_object_that_is_not_there",
        "http_requests::test_a_wrong_method_gets_the_allowed_ones",
    ),
    12: ("vhosts::test_a_virtual_host_is_made_shown_changed_and_deleted",),
    13: (
        "bodies::test_a_body_that_is_not_an_object_is_refused",
        "bad_input::test_it_is_refused_soon_with_a_reason_and_nothing_is_changed",
    ),
    14: ("bodies::test_words_are_taken_for_booleans_and_numbers_and_more_keys_are_ignored",),
    15: ("queues::test_a_different_declaration_gets_the_difference",),
    16: ("lists::test_columns_choose_what_is_listed_of_each",),
    17: ("lists::test_lists_are_sorted_by_any_field_with_missing_values_first",),
    18: ("lists::test_a_page_comes_in_an_envelope",),
    19: ("lists::test_pages_that_cannot_be_are_refused",),
    20: (
        "lists::test_pages_are_filtered_by_a_part_of_the_name_in_any_case",
        "lists::test_without_a_page_all_is_listed_in_its_order_and_filters_do_not_count",
    ),
    21: ("queues::test_samples_have_the_requested_interval_newest_first",),
    22: ("overview::test_a_range_of_too_many_samples_is_refused",),
    23: ("samples::test_rates_are_zero_two_ticks_after_the_traffic",),
    24: ("queues::test_a_counter_stays_when_the_channel_that_moved_it_is_closed",),
    25: ("queues::test_all_that_was_handed_out_is_the_sum_of_the_ways_it_went",),
    26: ("overview::test_the_overview_has_all_that_tools_read",),
    27: ("overview::test_a_node_has_all_that_tools_read",),
    28: ("exchanges::test_the_default_exchange_comes_first",),
    29: (
        "exchanges::test_the_default_exchange_comes_first",
        "messages::test_what_is_published_is_got_with_all_its_properties",
    ),
    30: ("bindings::test_a_binding_has_a_key_that_finds_it_quoted_once_or_twice",),
    31: ("bindings::test_arguments_make_another_key", "bindings::test_a_location_is_quoted_once_more"),
    32: ("bindings::test_exchanges_are_bound_to_each_other",),
    33: ("bindings::test_every_queue_is_bound_to_the_default_exchange",),  # 401
    34: (
        "messages::test_binary_payloads_are_base64_in_both_directions",
        "messages::test_a_message_for_no_queue_is_not_routed",
    ),
    35: ("messages::test_a_refused_publish_gets_the_reason", "messages::test_a_missing_object_is_named"),
    36: ("messages::test_a_count_may_be_a_word_and_each_message_is_had_once",),
    37: ("messages::test_binary_payloads_are_base64_in_both_directions",),
    38: ("queues::test_a_queue_is_deleted_unless_it_is_needed",),
    39: ("queues::test_a_queue_is_deleted_unless_it_is_needed",),
    40: ("connections::test_a_connection_closed_by_an_operator_gets_the_reason",),
    41: ("connections::test_a_user_sees_and_closes_own_connections_only_as_its_tags_allow",),
    42: ("connections::test_connections_are_found_and_closed_by_their_user",),
    43: ("users::test_an_invalid_body_creates_no_user",),
    44: ("users::test_a_hash_is_taken_as_it_is",),
    45: ("users::test_without_password_and_hash_nobody_gets_in_any_more",),
    46: ("users::test_a_user_is_made_shown_changed_and_deleted",),
    47: ("users::test_permissions_need_a_user_a_virtual_host_and_three_patterns",),
    48: ("users::test_topic_permissions_are_given_shown_and_taken",),
    49: (
        "vhosts::test_a_virtual_host_that_cannot_be_is_not_made",
        "vhosts::test_a_virtual_host_is_made_shown_changed_and_deleted",
    ),
    50: ("vhosts::test_a_protected_virtual_host_is_not_deleted",),
    51: ("vhosts::test_limits_apply_to_new_objects_until_they_are_cleared",),
    52: (
        "vhosts::test_limits_apply_to_new_objects_until_they_are_cleared",
        "vhosts::test_limits_of_a_user_are_set_shown_to_that_user_and_cleared",
    ),
    53: ("cluster::test_the_cluster_can_be_called_otherwise",),
    54: ("health::test_a_virtual_host_is_alive_if_its_test_message_is_got",),
    55: ("health::test_ports_and_protocols_are_those_that_are_bound",),
    56: ("health::test_ports_and_protocols_are_those_that_are_bound",),
    57: ("health::test_alarms_fail_with_the_node_and_what_it_is_low_on", "overview::test_a_node_shows_its_alarms"),
    58: ("health::test_load_balancers_ask_without_a_password",),
    59: ("cluster::test_a_requested_hash_accepts_its_password",),
    60: (
        "http_requests::test_head_answers_as_get_without_the_body",
        "http_requests::test_long_responses_are_compressed_if_the_client_accepts_it",
        "http_requests::test_responses_must_not_be_cached_and_have_security_headers",
    ),
    # Definitions, parameters, federation
    61: ("definitions::test_what_is_exported_can_be_imported_elsewhere",),
    62: ("definitions::test_what_rabbitmq_has_exported_is_taken_over",),
    63: (
        "definitions::test_one_virtual_host_is_exported_and_imported_into_another",
        "tests/unit/core/definitions/test_importer.py",
    ),
    64: (
        "definitions::test_definitions_may_come_in_a_form",
        "definitions::test_a_file_to_write_is_named_without_what_could_break_the_header",
    ),
    65: ("tests/unit/core/definitions/test_importer.py",),
    66: ("tests/unit/core/definitions/test_exporter.py",),
    67: ("policies::test_a_parameter_that_its_component_refuses_is_not_set",),
    68: ("bad_input::test_it_is_refused_soon_with_a_reason_and_nothing_is_changed",),
    69: ("tests/unit/core/policies/test_policies.py",),
    70: (LINKS + "test_one_exchange_has_one_link_whose_uri_is_that_of_the_configuration",),
    71: (LINKS + "test_no_password_of_an_upstream_is_shown",),
    72: (LINKS + "test_a_link_fails_with_a_reason_and_runs_when_its_upstream_is_there",),
    73: (
        LINKS + "test_a_restarted_link_runs_again_and_an_unknown_one_is_not_found",
        "federation_links::test_monitoring_sees_links_and_policymakers_restart_them",
    ),
    74: (LINKS + "test_without_the_policy_there_are_no_links",),
    75: (LINKS + "test_a_link_fails_with_a_reason_and_runs_when_its_upstream_is_there",),
    # The command line
    **dict.fromkeys((76, 77, 78, 79, 81, 82, 84, 85), (f"{CTL}commands.py",)),
    80: (f"{CTL}commands.py", f"{CTL}parsing.py"),
    83: (f"{CTL}federation.py",),
    86: (f"{CTL}limits.py",),
    87: (f"{CTL}parsing.py",),
    88: (f"{CTL}commands.py",),
    89: (
        f"{CLIENTS}rabbitmqadmin.py::test_queues_are_declared_listed_and_deleted",
        f"{CLIENTS}rabbitmqadmin.py::test_messages_are_published_looked_at_taken_and_purged",
        f"{CLIENTS}rabbitmqadmin.py::test_all_definitions_are_exported_and_imported",
    ),
    # Metrics
    90: (f"{PROMETHEUS}dashboard.py",),
    91: (f"{PROMETHEUS}endpoints.py",),
    92: (f"{PROMETHEUS}counts.py",),
    93: (f"{PROMETHEUS}counts.py",),
    94: (f"{PROMETHEUS}dashboard.py",),
    95: (f"{PROMETHEUS}counts.py", f"{PROMETHEUS}endpoints.py"),
    96: (f"{PROMETHEUS}endpoints.py",),
    97: (f"{PROMETHEUS}dashboard.py", f"{CLIENTS}prometheus.py"),
    98: (f"{PROMETHEUS}slices.py",),
    99: (f"{CLIENTS}prometheus.py",),
    # Configuration, TLS, logs
    100: ("tests/unit/config/test_keys.py", "tests/unit/config/test_rabbitmq_conf.py"),
    101: ("tests/unit/config/test_sources.py",),
    102: ("tests/unit/config/test_started_broker.py",),
    103: ("tests/faults/crash/test_loaded_definitions.py",),
    104: ("tests/unit/config/test_started_broker.py", "tests/unit/net/test_tls.py"),
    105: ("tests/unit/net/test_tls.py", "tests/unit/net/test_certificates.py"),
    106: ("tests/unit/net/test_tls.py",),
    107: ("tests/unit/config/test_started_broker.py",),
    108: ("tests/unit/logs/test_configure.py",),
    109: ("tests/unit/logs/test_connection_log.py",),
    110: ("tests/unit/config/test_started_broker.py",),
    # Conformance
    118: (
        f"{CLIENTS}rabbit_hole.py::test_overview_and_nodes",
        f"{CLIENTS}rabbit_hole.py::test_statistics_have_samples_when_they_are_asked_for",
    ),
    120: (
        f"{CLIENTS}terraform.py::test_bindings_are_found_by_their_location",
        f"{CLIENTS}terraform.py::test_federation_upstreams",
    ),
    121: (
        f"{CLIENTS}keda.py::test_queues_by_a_regular_expression",
        f"{CLIENTS}keda.py::test_the_message_rate_is_seen_under_load",
    ),
    122: (f"{CLIENTS}flower.py::test_the_broker_tab_lists_queues_with_counts",),
}

# Checks without a test. This must only get shorter.
LATER: dict[int, str] = {
    **dict.fromkeys(range(111, 118), "the user interface"),
    119: "the suite of RabbitMQ's Java client is not run",
    123: "three federated brokers from docker/ring/compose.yaml",
}
LAST_CHECK = 123


def located(test: str) -> tuple[str, str]:
    """Return file and function, which may be empty."""
    file, _, name = test.partition("::")
    return (file if "/" in file else f"{MANAGEMENT}{file}.py"), name
