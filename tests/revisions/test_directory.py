"""Revisions from folders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from injector.errors import ConfigError
from injector.istio.proxyconfig import ProxyConfigs, read_proxy_config_resource
from injector.revisions.directory import EMBEDDED, merge_states, read_directory, read_folder, read_single
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.source import ClusterFacts, SourceState, build
from injector.revisions.tags import Tag
from tests.cases import cases
from tests.revisions.fakes import CONFIG, VALUES, make_raw, write_revision


def write(folder: Path, **files: str) -> Path:
    """Make a revision's folder; a name's double underscore is a dot."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_folder_holds_the_keys_of_the_config_maps(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "1-24",
        config=CONFIG,
        values="{}",
        mesh="a: 1",
        revision__yaml='istioVersion: "1.24"\nenv: {PLATFORM: openshift}',
    )

    raw = read_folder(folder)

    assert (raw.name, raw.config, raw.values, raw.mesh) == ("1-24", CONFIG, "{}", "a: 1")
    assert raw.settings == {"istioVersion": "1.24", "env": {"PLATFORM": "openshift"}}
    assert raw.origin == str(folder)


def test_a_folder_may_have_a_shared_mesh_config(tmp_path: Path) -> None:
    folder = write_revision(tmp_path / "1-24")
    (folder / "mesh").write_text("trustDomain: own")
    (folder / "shared-mesh").write_text("{trustDomain: shared, rootNamespace: shared}")

    mesh = build(read_folder(folder)).mesh

    assert (mesh.root_namespace, mesh.mesh_config.values["trustDomain"]) == ("shared", "own")


def test_only_the_config_must_be_there(tmp_path: Path) -> None:
    raw = read_folder(write(tmp_path / "a", config__yaml=CONFIG))

    assert (raw.config, raw.values, raw.mesh, raw.settings) == (CONFIG, None, None, {})


def test_a_mounted_config_map_is_read_through_its_links(tmp_path: Path) -> None:
    data = write(tmp_path / "mount" / "..2026_01_01", config=CONFIG)
    (tmp_path / "mount" / "..data").symlink_to(data.name)
    (tmp_path / "mount" / "config").symlink_to("..data/config")
    (tmp_path / "revisions").mkdir()
    (tmp_path / "revisions" / "1-24").symlink_to(tmp_path / "mount")

    state = read_directory(tmp_path / "revisions")

    assert [(raw.name, raw.config) for raw in state.revisions] == [("1-24", CONFIG)]
    assert state.failures == {}


def test_a_directory_that_is_a_mounted_config_map_has_tags_and_no_revisions(tmp_path: Path) -> None:
    write(tmp_path / "..2026", tags__yaml="prod: a")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "tags.yaml").symlink_to("..data/tags.yaml")

    state = read_directory(tmp_path)

    assert (list(state.revisions), list(state.tags)) == ([], ["prod"])


def test_revisions_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / name, config=CONFIG)
    (tmp_path / "README.md").write_text("no revision")

    assert [raw.name for raw in read_directory(tmp_path).revisions] == ["a", "b", "c"]


@cases("name", "files", "says")
def test_an_invalid_folder_fails_only_its_revision(tmp_path: Path, name: str, files: dict[str, str], says: str) -> None:
    write(tmp_path / "good", config=CONFIG)
    write(tmp_path / name, **files)

    state = read_directory(tmp_path)

    assert [raw.name for raw in state.revisions] == ["good"]
    assert list(state.failures) == [name]
    assert says in str(state.failures[name])
    assert str(tmp_path / name) in str(state.failures[name])


def test_a_link_that_cannot_be_followed_fails_only_its_revision(tmp_path: Path) -> None:
    write(tmp_path / "good", config=CONFIG)
    (tmp_path / "far").symlink_to("x" * 300)

    state = read_directory(tmp_path)

    assert [raw.name for raw in state.revisions] == ["good"]
    assert "far/config: cannot be read: File name too long" in str(state.failures["far"])


EMPTY = "is empty; write it, or delete it"


def loop(file: Path) -> None:
    file.symlink_to(file.name)


@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        *((name, lambda file: file.write_text("\n"), EMPTY) for name in ("config", "values", "mesh", "revision.yaml")),
        ("values", lambda file: file.write_bytes(b"ok\xff"), "is not UTF-8 at byte 2; save it as UTF-8"),
        ("mesh", Path.mkdir, "cannot be read: Is a directory"),
        ("config", loop, "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_a_file_that_cannot_be_read_or_is_about_to_be_written_is_named(
    tmp_path: Path, name: str, make: Callable[[Path], object], says: str
) -> None:
    folder = write(tmp_path / "a", **({} if name == "config" else {"config": CONFIG}))
    make(folder / name)

    with pytest.raises(ConfigError, match=f"{name}: {says}"):
        read_folder(folder)


@pytest.mark.parametrize(("text", "says"), [("", "tags.yaml: is empty"), ("- a", "not a mapping of tags")])
def test_tags_that_cannot_be_read_are_an_error_of_their_own(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path / "a", config=CONFIG)
    (tmp_path / "tags.yaml").write_text(text)

    state = read_directory(tmp_path)

    assert ([raw.name for raw in state.revisions], state.tags) == (["a"], {})
    assert says in str(state.tags_error)


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_missing_directory_is_named_with_its_flag(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=f"{name}: cannot be read as a directory of revisions: .*--revisions-dir"):
        read_directory(tmp_path / name)


def test_three_files_are_one_revision_named_default(tmp_path: Path) -> None:
    for name, text in (("c.yaml", CONFIG), ("v.json", VALUES), ("m.yaml", "x: 1")):
        (tmp_path / name).write_text(text)

    state = read_single(tmp_path / "c.yaml", tmp_path / "v.json", tmp_path / "m.yaml")

    raw = state.revisions[0]
    assert (raw.name, raw.config, raw.values, raw.mesh) == ("default", CONFIG, VALUES, "x: 1")
    assert raw.origin == str(tmp_path / "c.yaml")
    assert state.default == "default"


def test_values_and_mesh_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)

    raw = read_single(tmp_path / "c.yaml", name="1-24", settings={"istioVersion": "1.1"}).revisions[0]

    assert (raw.name, raw.values, raw.mesh, raw.settings) == ("1-24", None, None, {"istioVersion": "1.1"})


@pytest.mark.parametrize("broken", ["config", "values", "mesh"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_file_that_was_named_must_be_there_and_not_empty(tmp_path: Path, broken: str, is_empty: bool) -> None:
    files = {name: tmp_path / name for name in ("config", "values", "mesh")}
    for name, path in files.items():
        if is_empty or name != broken:
            path.write_text("" if name == broken else "x: 1")

    with pytest.raises(
        ConfigError, match=f"{broken}: {EMPTY if is_empty else 'there is no such file; check the path'}"
    ):
        read_single(files["config"], files["values"], files["mesh"])


def test_a_name_that_cannot_be_a_revisions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)

    with pytest.raises(ConfigError, match="--revision: 'Nope' cannot name a revision"):
        read_single(tmp_path / "c.yaml", name="Nope")


def test_the_injector_brings_two_revisions_and_a_default() -> None:
    registry = Registry()

    report = Loader(partial(read_directory, EMBEDDED), registry).load(0.0)

    assert report.errors == ()
    assert list(report.revisions) == ["canary", "stable"]
    assert registry.snapshot.resolve("").revision.name == "stable"


OWN = make_raw("a", origin="revisions/a")
THEIRS = make_raw("a", origin="ConfigMap x/a")
OTHER = make_raw("b")
BROKEN = ConfigError("no config")


def tag(revision: str) -> dict[str, Tag]:
    return {"prod": Tag("prod", ((revision, 1),))}


def test_revisions_of_either_source_are_merged() -> None:
    state = merge_states(SourceState((OWN,), {"x": BROKEN}, tag("a")), SourceState((OTHER,), {"y": BROKEN}))

    assert [raw.name for raw in state.revisions] == ["a", "b"]
    assert (set(state.failures), set(state.tags), dict(state.notes)) == ({"x", "y"}, {"prod"}, {})


def test_the_first_source_takes_precedence_with_a_note() -> None:
    state = merge_states(SourceState((OWN,)), SourceState((THEIRS, OTHER)))

    assert [raw.origin for raw in state.revisions] == ["revisions/a", "revisions/b"]
    assert state.notes == {"a": ("ConfigMap x/a has the same name and is not served",)}


def test_a_failure_in_the_first_source_hides_the_second() -> None:
    state = merge_states(SourceState((), {"a": BROKEN}), SourceState((THEIRS,)))

    assert (state.revisions, dict(state.failures)) == ((), {"a": BROKEN})
    assert merge_states(SourceState((OWN,)), SourceState((), {"a": BROKEN})).failures == {}


@pytest.mark.parametrize(
    ("theirs", "notes"),
    [("a", {}), ("b", {"a": ("tag `prod` leads here; the cluster's tag, which leads to `b`, is ignored",)})],
)
def test_the_first_sources_tag_takes_precedence_and_a_difference_is_noted(
    theirs: str, notes: dict[str, tuple[str, ...]]
) -> None:
    state = merge_states(SourceState((OWN,), tags=tag("a")), SourceState((OTHER,), tags=tag(theirs)))

    assert (state.tags["prod"].revision, dict(state.notes)) == ("a", notes)


def test_facts_of_the_cluster_apply_to_both_sources() -> None:
    facts = ClusterFacts(node_versions=("v1.33.0",))
    state = merge_states(SourceState((OWN,)), SourceState((make_raw("b", facts=facts),), facts=facts))

    assert [raw.facts for raw in state.revisions] == [facts, facts]


def proxy_configs(*names: str, **spec: Any) -> ProxyConfigs:
    items = ({"metadata": {"namespace": "shop", "name": name}, "spec": spec} for name in names)
    return ProxyConfigs.of(map(read_proxy_config_resource, items))


def test_proxy_configs_of_a_file_replace_those_of_the_cluster_by_name() -> None:
    own = ClusterFacts(proxy_configs=proxy_configs("a", concurrency=1))
    theirs = ClusterFacts(("v1.33.0",), proxy_configs=proxy_configs("a", "b", concurrency=2))
    state = merge_states(SourceState((OWN,), facts=own), SourceState((OTHER,), facts=theirs))

    expected = proxy_configs("a", concurrency=1).merge_over(proxy_configs("b", concurrency=2))
    assert state.facts == ClusterFacts(("v1.33.0",), proxy_configs=expected)
    assert [raw.facts for raw in state.revisions] == [state.facts] * 2


LISTED = """
apiVersion: v1
kind: List
items:
- apiVersion: networking.istio.io/v1beta1
  kind: ProxyConfig
  metadata: {name: a, namespace: shop, resourceVersion: "5"}
  spec: {concurrency: 1}
"""
SECOND = """
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: b, namespace: shop}
spec: {concurrency: 1}
"""


@pytest.mark.parametrize(
    ("text", "names"), [(LISTED, "a"), (LISTED + SECOND, "ab"), ('{"items": [], "kind": "List"}', "")]
)
def test_proxy_configs_are_read_as_kubectl_prints_them_for_every_revision(
    tmp_path: Path, text: str, names: str
) -> None:
    for name in ("1-24", "1-30"):
        write(tmp_path / name, config=CONFIG)
    (tmp_path / "proxyconfigs.yaml").write_text(text)

    state = read_directory(tmp_path)

    facts = ClusterFacts(proxy_configs=proxy_configs(*names, concurrency=1))
    assert [raw.facts for raw in state.revisions] == [facts, facts]
    assert state.facts == facts


@cases("text", "says")
def test_proxy_configs_that_are_not_valid_are_an_error_of_the_directory(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path / "1-24", config=CONFIG)
    (tmp_path / "proxyconfigs.yaml").write_text(text)

    with pytest.raises(ConfigError) as caught:
        read_directory(tmp_path)

    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(f"proxyconfigs.yaml{says}")
    assert caught.value.hint


def test_faults_of_both_are_kept_unless_the_first_has_the_tag() -> None:
    own, theirs = ConfigError("own"), ConfigError("theirs")
    first = SourceState((), tags=tag("a"), tags_error=own)
    second = SourceState((), tag_faults={"t": theirs, "prod": theirs}, default="b", webhook_faults=("x",))
    state = merge_states(first, second)

    assert (state.tags_error, state.tag_faults, state.default) == (own, {"t": theirs}, "b")
    assert state.webhook_faults == ("x",)
