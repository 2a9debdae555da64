"""The command lines that are run by warrenctl and RabbitMQ's tools, in this order."""

from collections.abc import Iterator
from dataclasses import dataclass

V = "compare-ctl"
USER = "compare-ctl-user"
# Lines from the reference's environment, such as Erlang's warnings.
ERLANG_ONLY = ("warning: the VM is running with native name encoding", "elixir", "Elixir")


@dataclass(frozen=True)
class Line:
    """A command line. With `unordered` the order of its output's lines is ignored."""

    text: str
    unordered: bool = False

    @property
    def title(self) -> str:
        return f"ctl {self.text}"


def lists() -> Iterator[Line]:
    """Yield every list command, with and without rows, in each format."""
    for text in (
        *(f"list_queues -p {V}", f"list_exchanges -p {V}", f"list_bindings -p {V}", f"list_policies -p {V}"),
        *(f"list_operator_policies -p {V}", f"list_parameters -p {V}", f"list_permissions -p {V}"),
        *(f"list_topic_permissions -p {V}", f"list_user_permissions {USER}", f"list_user_topic_permissions {USER}"),
        *(f"list_vhost_limits -p {V}", f"list_user_limits --user {USER}", f"list_consumers -p {V}"),
    ):
        yield Line(text, unordered=True)
        yield Line(f"{text} --formatter json", unordered=True)
    queues = f"list_queues -p {V} name durable auto_delete arguments messages consumers state type policy"
    for options in (
        *("", "--silent", "--quiet", "--formatter csv", "--formatter json", "--formatter pretty_table"),
        *("--no-table-headers", "--formatter nosuch", "--formatter json --silent", "--formatter csv --silent"),
        *("--formatter csv --no-table-headers", "--formatter pretty_table --silent", "--formatter erlang"),
    ):
        yield Line(f"{queues} {options}".rstrip(), unordered=True)
    yield Line(f"list_queues --vhost {V} name")
    yield Line(f"list_queues --vhost={V} name")
    yield Line(f"list_exchanges -p {V} name type durable arguments policy", unordered=True)
    yield Line(f"list_bindings -p {V} source_name destination_name routing_key arguments", unordered=True)
    for text in ("list_queues", "list_exchanges", "list_bindings", "list_consumers", "list_policies"):
        yield Line(f"{text} -p compare-nosuch", unordered=True)
    for text in ("list_permissions", "list_parameters", "list_vhost_limits", "list_topic_permissions"):
        yield Line(f"{text} -p compare-nosuch", unordered=True)
    yield Line(f"list_queues -p {V} nosuch")
    yield Line(f"list_exchanges -p {V} nosuch name")
    yield Line("list_connections nosuch")
    yield Line("list_channels nosuch")
    yield Line("list_user_permissions compare-nosuch")
    yield Line("list_user_limits --user compare-nosuch")
    yield Line("list_policies_that_match -p compare-ctl q")
    yield Line("list_unresponsive_queues -p compare-ctl")


def objects() -> Iterator[Line]:
    """Yield lines that make and query objects, valid and invalid."""
    yield Line(f"add_vhost {V}")
    yield Line(f"add_vhost {V}")
    yield Line("add_vhost compare-ctl2 --description text --tags a,b --default-queue-type quorum")
    yield Line("add_vhost compare-ctl3 --default-queue-type nosuch")
    yield Line("delete_vhost compare-nosuch")
    yield Line("add_vhost")
    yield Line("add_vhost a b")
    yield Line(f"add_user {USER} secret")
    yield Line(f"add_user {USER} secret")
    yield Line("add_user compare-ctl-empty ''")
    yield Line("add_user")
    yield Line("delete_user compare-nosuch")
    yield Line("change_password compare-nosuch secret")
    yield Line(f"change_password {USER} secret2")
    yield Line("clear_password compare-nosuch")
    yield Line(f"authenticate_user {USER} secret2")
    yield Line(f"authenticate_user {USER} wrong")
    yield Line("authenticate_user compare-nosuch wrong")
    yield Line(f"set_user_tags {USER} management other")
    yield Line("set_user_tags compare-nosuch management")
    yield Line(f"set_user_tags {USER}")
    yield Line(f"set_permissions -p {V} {USER} .* .* .*")
    yield Line(f"set_permissions -p compare-nosuch {USER} .* .* .*")
    yield Line(f"set_permissions -p {V} compare-nosuch .* .* .*")
    yield Line(f"set_permissions -p {V} {USER} [ .* .*")
    yield Line(f"set_permissions -p {V} {USER} .*")
    yield Line("clear_permissions -p compare-nosuch guest")
    yield Line(f"clear_permissions -p {V} compare-nosuch")
    yield Line(f"set_topic_permissions -p {V} {USER} amq.topic a b")
    yield Line(f"set_topic_permissions -p {V} compare-nosuch amq.topic a b")
    yield Line(f"set_topic_permissions -p {V} {USER} amq.topic [ b")


def settings() -> Iterator[Line]:
    """Yield lines that set policies, parameters and limits, valid and invalid."""
    definition = "'{\"max-length\": 5}'"
    yield Line(f"set_policy -p {V} p ^q {definition} --priority 2 --apply-to queues")
    yield Line(f"set_policy -p {V} p ^q {definition} --apply-to nosuch")
    yield Line(f"set_policy -p {V} p ^q '{{'")
    yield Line(f"set_policy -p {V} p ^q '{{}}'")
    yield Line(f"set_policy -p {V} p '[' {definition}")
    yield Line(f"set_policy -p {V} p ^q '{{\"nosuch\": 5}}'")
    yield Line(f"set_policy -p compare-nosuch p ^q {definition}")
    yield Line(f"set_policy -p {V} p")
    yield Line(f"set_operator_policy -p {V} op ^q {definition}")
    yield Line(f"clear_policy -p {V} compare-nosuch")
    yield Line(f"clear_operator_policy -p {V} compare-nosuch")
    yield Line(f'set_parameter -p {V} federation-upstream up \'{{"uri": "amqp://127.0.0.1:1"}}\'')
    yield Line(f"set_parameter -p {V} nosuch up '{{}}'")
    yield Line(f"set_parameter -p {V} federation-upstream up '{{'")
    yield Line(f"clear_parameter -p {V} federation-upstream compare-nosuch")
    yield Line("set_global_parameter compare-ctl '{\"a\": 1}'")
    yield Line("set_global_parameter compare-ctl '{'")
    yield Line("clear_global_parameter compare-nosuch")
    yield Line(f"set_vhost_limits -p {V} '{{\"max-queues\": 10}}'")
    yield Line(f"set_vhost_limits -p {V} '{{\"nosuch\": 10}}'")
    yield Line(f"set_vhost_limits -p {V} '{{'")
    yield Line(f"set_user_limits {USER} '{{\"max-channels\": 10}}'")
    yield Line(f"set_user_limits {USER} '{{\"nosuch\": 10}}'")
    yield Line("set_user_limits compare-nosuch '{\"max-channels\": 10}'")
    yield Line(f"set_vhost_tags {V} a b")
    yield Line(f"update_vhost_metadata {V} --description other")
    yield Line("update_vhost_metadata compare-nosuch --description other")


def ends() -> Iterator[Line]:
    """Yield lines that delete the objects."""
    yield Line(f"purge_queue -p {V} q")
    yield Line(f"purge_queue -p {V} compare-nosuch")
    yield Line(f"delete_queue -p {V} compare-nosuch")
    yield Line(f"delete_queue -p {V} q --if-unused --if-empty")
    yield Line(f"clear_policy -p {V} p")
    yield Line(f"clear_operator_policy -p {V} op")
    yield Line(f"clear_parameter -p {V} federation-upstream up")
    yield Line("clear_global_parameter compare-ctl")
    yield Line(f"clear_vhost_limits -p {V}")
    yield Line(f"clear_user_limits {USER} max-channels")
    yield Line(f"clear_user_limits {USER} all")
    yield Line(f"clear_topic_permissions -p {V} {USER}")
    yield Line(f"clear_permissions -p {V} {USER}")
    yield Line(f"clear_password {USER}")
    yield Line(f"delete_user {USER}")
    yield Line("delete_user compare-ctl-empty")
    yield Line(f"delete_vhost {V}")
    yield Line("delete_vhost compare-ctl2")
    yield Line("delete_vhost compare-ctl3")


def node() -> Iterator[Line]:
    """Yield lines about the node, its checks and its plugins; and wrong usage."""
    yield Line("rabbitmq-diagnostics ping")
    yield Line("rabbitmq-diagnostics check_running")
    yield Line("rabbitmq-diagnostics check_local_alarms")
    yield Line("rabbitmq-diagnostics check_alarms")
    yield Line("rabbitmq-diagnostics alarms")
    yield Line("rabbitmq-diagnostics check_port_listener {amqp_port}")
    yield Line("rabbitmq-diagnostics check_port_listener 1")
    yield Line("rabbitmq-diagnostics check_port_listener x")
    yield Line("rabbitmq-diagnostics check_protocol_listener amqp")
    yield Line("rabbitmq-diagnostics check_protocol_listener mqtt")
    yield Line("rabbitmq-diagnostics check_virtual_hosts")
    yield Line("rabbitmq-diagnostics check_port_connectivity")
    yield Line("rabbitmq-diagnostics check_certificate_expiration --within 1 --unit days")
    yield Line("rabbitmq-diagnostics check_certificate_expiration --within 1 --unit nosuch")
    yield Line("rabbitmq-plugins is_enabled rabbitmq_management")
    yield Line("rabbitmq-plugins is_enabled nosuch")
    yield Line("rabbitmq-plugins is_enabled rabbitmq_management rabbitmq_federation")
    yield Line("list_feature_flags nosuch")
    yield Line("enable_feature_flag nosuch")
    yield Line("nosuch")
    yield Line("list_queue")
    yield Line("list_queues --nosuch")
    yield Line("list_queues -p")
    yield Line("close_connection '<1.2.3.4>' reason")
    yield Line("close_connection")
    yield Line("close_all_user_connections compare-nosuch reason")
    yield Line("rabbitmq-diagnostics nosuch")
    yield Line("set_log_level nosuch")
    yield Line("import_definitions /nosuch.json")
    yield Line("eval 1+1.")
    yield Line("set_disk_free_limit x")
    yield Line("set_vm_memory_high_watermark x")
    yield Line("restart_federation_link nosuch")
    yield Line("federation_status")
    yield Line("list_users --formatter nosuch")
    yield Line("list_vhosts nosuch")
    yield Line("forget_cluster_node nosuch@nowhere")
    yield Line("join_cluster nosuch@nowhere")
    yield Line("-n nosuch@nowhere list_queues")
