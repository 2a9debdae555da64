"""An import of definitions while clients change the broker between its steps."""

from itertools import islice

import pytest

from tests.support.definitions import new_node
from warren.broker.amqp.errors import Invalid
from warren.broker.amqp.field_table import Table
from warren.broker.core.definitions.exporter import export_definitions, snapshot
from warren.broker.core.definitions.importer import DefinitionsImport, import_definitions
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.vhost import vhost as vhost_module
from warren.broker.core.vhost.vhost import VHost

DOCUMENT = {
    "vhosts": [{"name": "v"}],
    "queues": [{"vhost": "v", "name": name} for name in ("a", "b", "c")],
    "bindings": [
        {"vhost": "v", "source": "amq.direct", "destination": name, "destination_type": "queue"} for name in ("a", "c")
    ],
}


def test_a_plan_does_one_item_at_each_step() -> None:
    plan = DefinitionsImport(new_node(), DOCUMENT)
    assert len(list(plan.check())) == 6 + 1, "and the limit of each virtual host"
    assert len(list(plan.carry_out())) == 6


def test_only_entries_of_deleted_objects_fail_and_are_reported() -> None:
    node = new_node()
    plan = DefinitionsImport(node, DOCUMENT)
    list(plan.check())
    steps = plan.carry_out()
    list(islice(steps, 4))  # the virtual host and the queues
    vhost = node.vhosts["v"]
    vhost.delete_queue(vhost.queues["a"])
    list(steps)
    assert sorted(binding.destination.name for binding in vhost.exchanges["amq.direct"].outgoing.values()) == ["c"]
    with pytest.raises(Invalid, match=r"1 definitions were not imported.*no queue 'a'"):
        plan.check_failures()


def test_objects_declared_meanwhile_stay_as_they_are() -> None:
    node = new_node()
    node.add_vhost("v")
    plan = DefinitionsImport(node, DOCUMENT | {"exchanges": [{"vhost": "v", "name": "x", "type": "fanout"}]})
    list(plan.check())
    node.vhosts["v"].declare_queue("a", auto_delete=True)
    node.vhosts["v"].declare_exchange("x", "direct", durable=True)
    list(plan.carry_out())
    plan.check_failures()
    assert not node.vhosts["v"].queues["a"].durable and node.vhosts["v"].exchanges["x"].type_name == "direct"


def test_an_export_is_of_the_moment_when_it_began() -> None:
    node = new_node()
    import_definitions(node, DOCUMENT)
    node.users.add("alice", b"", ())
    node.users.set_permission("alice", "v", "", "", "")
    before = export_definitions(node)
    head, sections = snapshot(node)
    vhost = node.vhosts["v"]
    vhost.delete_queue(vhost.queues["a"])
    vhost.declare_queue("d", durable=True)
    vhost.bind("amq.direct", vhost.queues["d"], "", Table.EMPTY)
    node.add_vhost("w")
    node.users.set_permission("alice", "w", "", "", "")
    made = {section.name: [item for items in section.batches() for item in items] for section in sections}
    assert head | made == before


def delete_in_a_job(vhost: VHost, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vhost_module, "AT_ONCE_COST", -1)  # as for very many bindings
    vhost.bind("amq.fanout", vhost.queues[queue], "", Table.EMPTY)
    vhost.scheduler.charge(TURN_COST)
    vhost.delete_queue(vhost.queues[queue])
    assert ("queue", queue) in vhost.unbinding_jobs


def test_a_virtual_host_deleted_during_a_wait_costs_only_its_own_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_node()
    for name in ("v", "w"):
        node.add_vhost(name)
    for name in ("a", "b"):
        node.vhosts["v"].declare_queue(name)
        delete_in_a_job(node.vhosts["v"], name, monkeypatch)
    queues = [{"vhost": vhost, "name": name} for vhost in ("v", "w") for name in ("a", "b")]
    plan = DefinitionsImport(node, {"queues": queues})
    list(plan.check())
    steps = plan.carry_out()
    over: list[bool] = []
    wait = next(steps)
    assert wait is not None, "it waits for the bindings of the deleted queue"
    wait(lambda: over.append(True))
    node.delete_vhost("v")
    node.scheduler.finish_all()
    assert over == [True]
    list(steps)
    assert set(node.vhosts["w"].queues) == {"a", "b"} and "v" not in node.vhosts
    with pytest.raises(Invalid, match=r'2 definitions were not imported.*Virtual host "v" does not exist'):
        plan.check_failures()


def test_an_import_without_a_loop_finishes_what_it_would_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_node()
    node.add_vhost("v")
    node.vhosts["v"].declare_queue("a")
    delete_in_a_job(node.vhosts["v"], "a", monkeypatch)
    import_definitions(node, DOCUMENT)
    assert set(node.vhosts["v"].queues) == {"a", "b", "c"}
