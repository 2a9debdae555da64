"""The default cluster name: brokers of one machine have different ones."""

from pathlib import Path

from warren.broker.app.build import default_cluster_name
from warren.broker.config import Config


def test_brokers_with_different_data_folders_have_different_names_that_stay(tmp_path: Path) -> None:
    names = [default_cluster_name(Config(data_dir=str(tmp_path / name))) for name in ("a", "b", "a")]
    assert names[0] == names[2] != names[1]
    assert all(name.startswith(f"{Config().node}-") for name in names)


def test_a_folder_has_one_name_however_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    paths = [tmp_path / "data", tmp_path / "other" / ".." / "data", tmp_path / "link"]
    assert len({default_cluster_name(Config(data_dir=str(path))) for path in paths}) == 1


def test_brokers_in_memory_differ_by_their_listeners() -> None:
    first, second = [Config(memory=True, listeners_tcp=(("127.0.0.1", port),)) for port in (5672, 5673)]
    assert default_cluster_name(first) != default_cluster_name(second)


def test_a_name_that_is_given_is_the_name(tmp_path: Path) -> None:
    assert default_cluster_name(Config(cluster_name="here", data_dir=str(tmp_path))) == "here"
    assert default_cluster_name(Config(node="warren@one", data_dir=str(tmp_path))) == "warren@one"
