from __future__ import annotations

from injector.injection import containers as c


def _named(*names: str) -> list[c.Container]:
    return [{"name": name} for name in names]


def test_a_container_moves_to_the_front_or_the_end() -> None:
    assert c.moved_first("b", _named("a", "b", "d")) == _named("b", "a", "d")
    assert c.moved_last("b", _named("a", "b", "d")) == _named("a", "d", "b")


def test_moving_what_is_not_there_changes_nothing() -> None:
    assert c.moved_first("x", _named("a", "b")) == _named("a", "b")


def test_of_equal_names_the_last_is_kept() -> None:
    twice: list[c.Container] = [{"name": "p", "n": 1}, {"name": "a"}, {"name": "p", "n": 2}]
    assert c.moved_last("p", twice) == [{"name": "a"}, {"name": "p", "n": 2}]


def test_containers_are_found_before_init_containers() -> None:
    pod = {"spec": {"containers": [{"name": "p", "n": 1}], "initContainers": [{"name": "p", "n": 2}, {"name": "q"}]}}
    assert c.find_in_pod("p", pod) == {"name": "p", "n": 1}
    assert c.find_in_pod("q", pod) == {"name": "q"}
    assert c.find_in_pod("z", pod) is None


def test_a_changed_container_takes_its_place_and_the_original_stays() -> None:
    pod = {"spec": {"containers": _named("a", "b")}}
    changed = c.with_container(pod, {"name": "b", "image": "new"})
    assert changed["spec"]["containers"] == [{"name": "a"}, {"name": "b", "image": "new"}]
    assert pod == {"spec": {"containers": _named("a", "b")}}


def test_an_empty_list_leaves_its_key_out() -> None:
    assert c.with_spec({"spec": {"initContainers": _named("a"), "x": 1}}, initContainers=[]) == {"spec": {"x": 1}}


def test_empty_annotations_leave_their_key_out() -> None:
    pod = {"metadata": {"name": "p", "annotations": {"a": "b"}}}
    assert c.with_metadata(pod, annotations={}) == {"metadata": {"name": "p"}}


def test_env_is_appended_also_where_there_was_none() -> None:
    assert c.env_appended({"name": "a"}, "N", "v") == {"name": "a", "env": [{"name": "N", "value": "v"}]}
