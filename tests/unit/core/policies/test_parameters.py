"""Runtime parameters: setting and clearing, components, and notification of observers."""

import copy

import pytest

from tests.support.recording_observer import RecordingObserver
from warren.broker.amqp.errors import Invalid, OperatorError, Unknown
from warren.broker.core.metadata.records import StoredGlobalParameter
from warren.broker.core.node.node import Node
from warren.broker.core.policies.parameters import Component, Parameters, is_same


class Colours(Component):
    """A component that takes texts, and records the values that apply."""

    def __init__(self) -> None:
        super().__init__("colour")
        self.held: dict[tuple[str, str], object] = {}

    def validate(self, name: str, value: object) -> list[str]:
        return [] if isinstance(value, (str, list)) else [f"{name} is no colour", "nor is it anything else"]

    def changed(self, vhost: str, name: str, value: object) -> None:
        self.held[vhost, name] = value


@pytest.fixture
def colours(node: Node) -> Colours:
    component = Colours()
    node.parameters.register(component)
    return component


@pytest.fixture
def parameters(node: Node, colours: Colours) -> Parameters:
    return node.parameters


def reason(error: pytest.ExceptionInfo[OperatorError]) -> str:
    return error.value.text


def test_a_parameter_is_stored_and_applied(
    parameters: Parameters, colours: Colours, watcher: RecordingObserver
) -> None:
    assert parameters.set("/", "colour", "a", "red")
    assert not parameters.set("/", "colour", "a", ["blue"])
    assert parameters.get("/", "colour", "a") == ["blue"] == colours.held["/", "a"]
    assert watcher.take_changes() == ["+parameter / colour a"] * 2
    parameters.clear("/", "colour", "a")
    assert parameters.get("/", "colour", "a") is None is colours.held["/", "a"]
    assert watcher.take_changes() == ["-parameter / colour a"]


def test_setting_the_same_value_again_notifies_nobody(
    parameters: Parameters, colours: Colours, watcher: RecordingObserver
) -> None:
    parameters.set("/", "colour", "a", [{"x": 1, "y": True}])
    watcher.take_changes()
    parameters.set("/", "colour", "a", [{"y": True, "x": 1}])
    assert watcher.take_changes() == []
    parameters.set("/", "colour", "a", [{"y": 1, "x": 1}])
    assert watcher.take_changes() == ["+parameter / colour a"]


def test_true_is_not_one() -> None:
    values: list[object] = [True, 1, 1.0, None, "1", [], [1], [True], [1, 1], {}, {"a": [1]}, {"a": [1.0]}, {"b": [1]}]
    for at, one in enumerate(values):
        assert [is_same(one, copy.deepcopy(other)) for other in values] == [other == at for other in range(len(values))]
    assert is_same({"a": [1], "b": 2}, {"b": 2, "a": [1]})
    assert not is_same({"a": [1], "b": 2}, {"b": 2, "a": [True]})


def test_what_the_caller_does_with_the_value_afterwards_changes_nothing(parameters: Parameters) -> None:
    value = ["red"]
    parameters.set("/", "colour", "a", value)
    value.append("blue")
    assert parameters.get("/", "colour", "a") == ["red"]


def test_all_errors_are_reported_and_nothing_is_stored(parameters: Parameters, watcher: RecordingObserver) -> None:
    with pytest.raises(Invalid) as raised:
        parameters.set("/", "colour", "a", 5)
    assert reason(raised) == "Validation failed\n\na is no colour\nnor is it anything else\n"
    assert not parameters.all() and not watcher.take_changes()


def test_policies_are_set_by_another_method(parameters: Parameters) -> None:
    with pytest.raises(Invalid) as raised:
        parameters.set("/", "policy", "a", {})
    assert reason(raised) == "policies may not be set using this method"
    with pytest.raises(Invalid):
        parameters.clear("/", "policy", "a")


def test_what_is_not_there_cannot_be_cleared(parameters: Parameters) -> None:
    with pytest.raises(Unknown) as raised:
        parameters.clear("/", "colour", "a")
    assert reason(raised) == "Parameter does not exist"
    with pytest.raises(Unknown):
        parameters.clear_global("a")
    for act in (lambda: parameters.set("none", "colour", "a", "red"), lambda: parameters.clear("none", "colour", "a")):
        with pytest.raises(Unknown) as raised:
            act()
        assert reason(raised) == 'Virtual host "none" does not exist'


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"x"])
def test_values_that_json_cannot_represent_are_refused(parameters: Parameters, value: object) -> None:
    with pytest.raises(Invalid):
        parameters.set_global("a", value)


def test_values_nested_too_deep_are_refused(parameters: Parameters) -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(Invalid):
        parameters.set_global("a", value)


def test_a_name_that_cannot_be_stored_is_refused(parameters: Parameters) -> None:
    with pytest.raises(Invalid):
        parameters.set("/", "colour", "\ud800", "red")
    with pytest.raises(Invalid):
        parameters.set_global("\ud800", "red")


def test_the_number_of_a_components_parameters_may_be_limited(node: Node, parameters: Parameters) -> None:
    node.add_vhost("other")
    parameters.limits["colour"] = 2
    parameters.set("/", "colour", "a", "red")
    parameters.set("other", "colour", "a", "red")
    with pytest.raises(Invalid) as raised:
        parameters.set("/", "colour", "b", "red")
    assert reason(raised) == "Validation failed\n\ncomponent colour is limited to 2\n"
    parameters.set("/", "colour", "a", "blue")
    parameters.clear("other", "colour", "a")
    parameters.set("/", "colour", "b", "red")


def test_parameters_of_a_virtual_host_that_is_being_deleted_do_not_count(node: Node, parameters: Parameters) -> None:
    parameters.limits["colour"] = 2
    for _ in range(2):
        node.add_vhost("other")
        for number in range(1_000):
            node.vhosts["other"].declare_queue(f"q{number}")
        parameters.set("other", "colour", "a", "red")
        parameters.set("other", "colour", "b", "red")
        parameters.clear("other", "colour", "b")
        parameters.set("/", "colour", "a", "red")
        node.delete_vhost("other")
        parameters.set("/", "colour", "b", "red")
        assert node.is_ending("other"), "its queues and parameters are deleted in later turns"
        with pytest.raises(Invalid):
            parameters.set("/", "colour", "c", "red")
        parameters.clear("/", "colour", "a")
        parameters.clear("/", "colour", "b")
        node.scheduler.finish_all()


def test_they_are_listed_by_vhost_and_component(node: Node, parameters: Parameters) -> None:
    node.add_vhost("other")
    for vhost, name in (("other", "b"), ("/", "b"), ("/", "a")):
        parameters.set(vhost, "colour", name, "red")
    parameters.set("/", "vhost-limits", "limits", {})
    listed = [(each.vhost, each.component, each.name) for each in parameters.all()]
    assert listed == sorted(listed) and len(listed) == 4
    assert [each.name for each in parameters.all("/", "colour")] == ["a", "b"]
    assert [each.name for each in parameters.all(component="vhost-limits")] == ["limits"]


def test_global_parameters_have_any_name_and_value(parameters: Parameters, watcher: RecordingObserver) -> None:
    assert parameters.set_global("mqtt_port_to_vhost_mapping", {"1883": "/"})
    assert not parameters.set_global("mqtt_port_to_vhost_mapping", {"1883": "/"})
    assert watcher.take_changes() == ["+globalparameter mqtt_port_to_vhost_mapping"]
    assert parameters.globals() == {"mqtt_port_to_vhost_mapping": {"1883": "/"}}
    parameters.clear_global("mqtt_port_to_vhost_mapping")
    assert watcher.take_changes() == ["-globalparameter mqtt_port_to_vhost_mapping"] and not parameters.globals()


def test_the_cluster_has_the_name_that_it_is_given(node: Node) -> None:
    assert node.cluster_name == "cluster"
    node.parameters.set_global("cluster_name", "second")
    assert node.cluster_name == "second"
    for wrong in (5, "", "x" * 256, "\ud800", "a\nb"):
        with pytest.raises(Invalid):
            node.parameters.set_global("cluster_name", wrong)
    node.parameters.restore_global(StoredGlobalParameter("cluster_name", '""'))  # of an earlier version
    assert node.cluster_name == "cluster"
    node.parameters.clear_global("cluster_name")
    assert node.cluster_name == "cluster"
