"""Kubeconfigs: files, contexts, namespaces and errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from injector.cluster.kubeconfig import Kubeconfig, unusable
from injector.errors import ConfigError

CANARY = "canary-of-a-token"


def written(path: Path, *contexts: str, current: str = "", **context: object) -> Path:
    """A kubeconfig with equal contexts."""
    users = [{"name": "u", "user": {"token": CANARY}}]
    named = [{"name": name, "context": {"cluster": "c", "user": "u", **context}} for name in contexts]
    path.write_text(json.dumps({"users": users, "contexts": named, "current-context": current}))
    return path


def test_the_first_file_with_a_current_context_decides(tmp_path: Path) -> None:
    first = written(tmp_path / "a", "one")
    second = written(tmp_path / "b", "two", current="two")
    third = written(tmp_path / "c", "three", current="three")

    assert Kubeconfig((first, second, third)).select_context() == "two"
    assert Kubeconfig((third, second)).select_context() == "three"
    assert Kubeconfig((first,)).select_context() is None


def test_a_context_that_is_asked_for_is_looked_for_in_every_file(tmp_path: Path) -> None:
    files = (written(tmp_path / "a", "one", current="one"), written(tmp_path / "b", "two"))

    assert Kubeconfig(files, "two").select_context() == "two"
    with pytest.raises(ConfigError) as caught:
        Kubeconfig(files, "three").select_context()
    assert str(caught.value) == f"{files[0]}:{files[1]}: there is no context 'three'; give --context one of one, two"


@pytest.mark.parametrize("text", ["[]", "", '{"contexts": {"name": "x"}}', '{"contexts": ["x", {"name": 1}]}'])
def test_a_kubeconfig_without_contexts_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)

    with pytest.raises(ConfigError, match="there is no context 'one'; it has no contexts"):
        Kubeconfig((tmp_path / "a",), "one").select_context()


def test_an_invalid_kubeconfig_is_named_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"token: {CANARY}: [")
    (tmp_path / "b").write_bytes(b"\xff\xfe")

    for name in ("a", "b"):
        with pytest.raises(ConfigError) as caught:
            Kubeconfig((tmp_path / name,)).select_context()
        assert str(caught.value) == str(unusable(tmp_path / name, "not YAML"))
        assert CANARY not in str(caught.value)
        assert caught.value.__suppress_context__


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nope: cannot be read: No such file or directory; correct --kubeconfig"):
        Kubeconfig((tmp_path / "nope",)).select_context()


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_file_whose_read_may_never_end_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")

    with pytest.raises(ConfigError, match="config: is not a regular file"):
        Kubeconfig((path,)).select_context()


def test_the_null_device_is_an_empty_kubeconfig() -> None:
    assert Kubeconfig((Path(os.devnull),)).contexts() == []


def test_it_names_its_files_or_the_pod() -> None:
    assert str(Kubeconfig((Path("a"), Path("b")))) == "a:b"
    assert str(Kubeconfig()) == "the pod's service account"


@pytest.mark.parametrize(
    ("namespace", "expected"), [("shop", "shop"), ("", "default"), (None, "default"), (1, "default")]
)
def test_the_namespace_is_the_contexts(tmp_path: Path, namespace: object, expected: str) -> None:
    assert Kubeconfig((written(tmp_path / "a", "c", current="c", namespace=namespace),)).namespace() == expected


def test_a_context_that_is_not_a_mapping_has_no_namespace(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(json.dumps({"contexts": [{"name": "c", "context": "x"}], "current-context": "c"}))

    assert Kubeconfig((tmp_path / "a",)).namespace() == "default"


def test_the_namespace_comes_from_the_first_file_with_the_context(tmp_path: Path) -> None:
    files = tuple(written(tmp_path / name, "c", current="c", namespace=name) for name in ("one", "two"))

    assert Kubeconfig(files).namespace() == "one"
    assert Kubeconfig(files[::-1], "c").namespace() == "two"


def test_without_a_context_it_is_default(tmp_path: Path) -> None:
    assert Kubeconfig((written(tmp_path / "a", "one"),)).namespace() == "default"
    assert Kubeconfig().namespace() == "default"
