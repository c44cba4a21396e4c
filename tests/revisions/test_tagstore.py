"""Tags and revisions of a directory: set, removed and refused while they are in use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from injector.errors import ConfigError, TagError
from injector.revisions import tagstore
from injector.revisions.tags import Shadow, Tag, parse_tags
from injector.revisions.tagstore import (
    DirectoryTags,
    TagState,
    TagStore,
    check_removable,
    check_tag,
    check_unused,
    namespaces_by_name,
    remove_tag,
)
from tests.cases import cases
from tests.revisions.fakes import write_revision

PROD = Tag("prod", (("1-24", 1),))
NEW = Tag("prod", (("1-30", 1),))
CANARY = Tag("canary", (("1-24", 90), ("1-30", 10)))
STATE = TagState({"prod": PROD}, ("1-24", "1-30"), {"bad": ConfigError("no config", where="bad")})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two revisions, a folder without a config, and a tag with a comment."""
    for name in ("1-24", "1-30"):
        write_revision(tmp_path / name)
    (tmp_path / "bad").mkdir()
    (tmp_path / "tags.yaml").write_text("prod: 1-24  # ours\n")
    return tmp_path


class Memory:
    """A store in memory; the checks of tags work with any store."""

    def __init__(self, state: TagState, **used: tuple[str, ...]) -> None:
        self.state = state
        self.used = used
        self.running: dict[str, tuple[str, ...]] = {}
        self.written: list[Tag | str] = []

    def list(self) -> TagState:
        return self.state

    def set(self, tag: Tag) -> None:
        self.written.append(tag)

    def remove(self, name: str) -> None:
        self.written.append(name)

    def gateways(self, tag: str) -> Sequence[str]:
        del tag
        return ()

    def users(self, name: str) -> Sequence[str]:
        return [f"namespace {namespace}" for namespace in self.used.get(name, ())]

    def sidecars(self, revision: str) -> Sequence[str]:
        return [f"pod {pod}" for pod in self.running.get(revision, ())]


def set_tag(store: Memory, tag: Tag, *, overwrite: bool = False) -> None:
    """Set a tag as the command does."""
    store.set(check_tag(store.list(), tag, overwrite=overwrite))


def test_any_store_will_do() -> None:
    memory = Memory(STATE)
    store: TagStore = memory

    set_tag(memory, CANARY)
    set_tag(memory, PROD, overwrite=True)
    remove_tag(store, "prod")

    assert memory.written == [CANARY, PROD, "prod"]


@pytest.mark.parametrize(
    ("tag", "overwrite", "says"),
    [
        (PROD, False, 'revision tag "prod" already exists, and --overwrite is false; it leads to 1-24'),
        (
            Tag("new", (("nope", 1),)),
            True,
            'cannot find MutatingWebhookConfiguration or Service with revision "nope"; known revisions are 1-24, 1-30',
        ),
        (Tag("new", (("1-24", 1), ("nope", 0))), False, 'with revision "nope"'),
        (Tag("new", (("bad", 1),)), True, 'revision "bad" cannot be read; bad: no config'),
        (
            Tag("1-24", (("1-30", 1),)),
            True,
            'cannot create revision tag "1-24": found existing control plane revision with same name',
        ),
        (Tag("bad", (("1-30", 1),)), True, 'cannot create revision tag "bad"'),
        (Tag("new", (("1-24", 1),), "", Shadow("nope")), False, 'with revision "nope"'),
    ],
)
def test_a_tag_that_istioctl_refuses_is_refused_in_its_words(tag: Tag, overwrite: bool, says: str) -> None:
    memory = Memory(STATE)

    with pytest.raises(TagError) as caught:
        set_tag(memory, tag, overwrite=overwrite)

    assert says in str(caught.value)
    assert memory.written == []


def test_the_default_tag_may_have_the_name_of_a_revision() -> None:
    assert check_tag(TagState({}, ("default", "1-24")), Tag("default", (("1-24", 1),))).name == "default"


def test_a_missing_tag_is_not_removed() -> None:
    memory = Memory(STATE)

    with pytest.raises(TagError, match=r'^cannot remove tag "x": cannot find .* for tag; known tags are prod$'):
        remove_tag(memory, "x")

    assert memory.written == []


def test_an_unreadable_tag_exists() -> None:
    memory = Memory(replace(STATE, faults={"odd": ConfigError("no JSON")}))

    with pytest.raises(TagError, match='"odd" already exists, and --overwrite is false; no JSON; add --overwrite'):
        set_tag(memory, Tag("odd", (("1-24", 1),)))
    set_tag(memory, Tag("odd", (("1-24", 1),)), overwrite=True)
    remove_tag(memory, "odd")

    assert memory.written == [Tag("odd", (("1-24", 1),)), "odd"]


def test_a_tag_in_use_is_removed_by_force_alone() -> None:
    memory = Memory(STATE, prod=("bank", "shop"))

    with pytest.raises(TagError) as caught:
        remove_tag(memory, "prod")
    assert str(caught.value) == (
        'cannot remove tag "prod": it is in use by namespace bank, namespace shop; '
        "move, relabel or restart them first, or add --force: new pods then get no sidecars"
    )
    assert memory.written == []

    remove_tag(memory, "prod", force=True)
    assert memory.written == ["prod"]


def test_a_revision_is_used_by_its_tags_and_by_what_names_it() -> None:
    tags = parse_tags("prod: a\nmix: {b: 1, a: 0}\ntry: {revision: b, shadow: {revision: a}}\nother: b\n")
    memory = Memory(TagState(tags, ("a", "b", "c"), {"bad": ConfigError("x")}), a=("bank",), bad=("shop",))

    for name, says in (("a", "by tag prod, tag mix, tag try, namespace bank;"), ("bad", "by namespace shop;")):
        with pytest.raises(TagError, match=f'cannot remove revision "{name}": it is in use {says}'):
            check_removable(memory, name)
        check_removable(memory, name, force=True)
    check_removable(memory, "c")
    with pytest.raises(
        TagError, match=r'cannot remove revision "d": cannot find .* with revision "d"; known revisions are'
    ):
        check_removable(memory, "d", force=True)


def test_a_tag_that_cannot_be_read_may_lead_to_any_revision() -> None:
    faults = {"odd": ConfigError("no JSON"), "stale": ConfigError("its weights do not count")}
    memory = Memory(TagState(parse_tags("stale: b"), ("a", "b"), faults=faults))

    with pytest.raises(TagError, match="it is in use by tag odd;"):
        check_removable(memory, "a")


def test_labels_follow_the_tag_if_a_revision_has_its_name_and_sidecars_do_not() -> None:
    memory = Memory(TagState(parse_tags("default: a"), ("a", "default")), default=("bank",))
    check_removable(memory, "default")

    memory.running = {"default": ("bank/web",)}
    with pytest.raises(TagError, match="it is in use by pod bank/web;"):
        check_removable(memory, "default")


def test_an_unknown_name_lists_the_known_ones() -> None:
    assert STATE.find_tag("prod") == PROD
    STATE.check_revision("1-24")

    with pytest.raises(TagError, match=r'for tag "x"; known tags are prod$'):
        STATE.find_tag("x")
    with pytest.raises(TagError, match=r'with revision "x"; there are no revisions$'):
        TagState({}, ()).check_revision("x")
    with pytest.raises(TagError, match=r"r-19 and 5 more$"):
        TagState({}, tuple(f"r-{number:02}" for number in range(25))).check_revision("x")


def test_a_tags_target_is_one_word() -> None:
    assert (PROD.destination, CANARY.destination) == ("1-24", "1-24=90,1-30=10")


def test_a_directory_lists_tags_revisions_and_namespaces(directory: Path) -> None:
    (directory / "1-24" / "revision.yaml").write_text(
        "namespaces: {shop: {labels: {istio.io/rev: prod}}, bank: {labels: {istio.io/rev: prod}}, odd: 1, none: {}}\n"
    )
    (directory / "1-30" / "revision.yaml").write_text("namespaces: [wrong]\n")

    state = DirectoryTags(directory).list()

    assert state.tags == {"prod": PROD}
    assert state.revisions == ("1-24", "1-30")
    assert list(state.broken) == ["bad"]
    assert DirectoryTags(directory).namespaces() == {"prod": ("bank", "shop")}
    assert DirectoryTags(directory).users("prod") == ["namespace bank", "namespace shop"]
    assert DirectoryTags(directory).users("1-24") == []


def test_a_revision_is_removed_with_its_folder(directory: Path) -> None:
    DirectoryTags(directory).remove_revision("1-30")

    assert sorted(path.name for path in directory.iterdir()) == ["1-24", "bad", "tags.yaml"]
    with pytest.raises(ConfigError, match="nope: cannot be written: No such file or directory"):
        DirectoryTags(directory).remove_revision("nope")


def test_a_directory_whose_tags_cannot_be_read_says_so_and_is_left_alone(directory: Path) -> None:
    (directory / "tags.yaml").write_text("prod: [\n")
    store = DirectoryTags(directory)

    for change in (store.list, lambda: store.set(CANARY), lambda: store.remove("prod")):
        with pytest.raises(Exception, match=r"tags\.yaml"):
            change()
    assert (directory / "tags.yaml").read_text() == "prod: [\n"


def test_a_tag_is_set_and_removed_beside_the_others(directory: Path) -> None:
    store, file = DirectoryTags(directory), directory / "tags.yaml"

    store.set(CANARY)
    assert file.read_text() == "prod: 1-24  # ours\ncanary: {1-24: 90, 1-30: 10}\n"
    store.set(Tag("prod", (("1-30", 1),)))
    assert file.read_text() == "prod: 1-30  # ours\ncanary: {1-24: 90, 1-30: 10}\n"
    store.remove("prod")
    assert file.read_text() == "canary: {1-24: 90, 1-30: 10}\n"
    store.remove("canary")
    assert (file.read_text(), store.list().tags) == ("{}\n", {})
    store.set(PROD)
    assert file.read_text() == "prod: 1-24\n"


def test_the_first_tag_makes_the_file(directory: Path) -> None:
    (directory / "tags.yaml").unlink()

    DirectoryTags(directory).set(PROD)

    assert (directory / "tags.yaml").read_text() == "prod: 1-24\n"


@cases("text")
def test_a_layout_that_cannot_be_kept_loses_no_tag(directory: Path, text: str) -> None:
    file, store = directory / "tags.yaml", DirectoryTags(directory)
    file.write_text(text)
    blue = parse_tags(text)["blue"]

    store.set(Tag("prod", (("1-30", 3), ("1-24", 4))))
    assert parse_tags(file.read_text()) == {"prod": Tag("prod", (("1-30", 3), ("1-24", 4))), "blue": blue}
    store.remove("prod")
    assert parse_tags(file.read_text()) == {"blue": blue}


def test_the_comment_at_the_head_of_such_a_layout_is_kept(directory: Path) -> None:
    (directory / "tags.yaml").write_text("# ours\n# not yours\n{prod: 1-24, blue: 1-24}\n")

    DirectoryTags(directory).remove("blue")

    assert (directory / "tags.yaml").read_text() == "# ours\n# not yours\nprod: 1-24\n"


def test_a_rewritten_file_keeps_unknown_keys(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"prod": PROD, "blue": PROD}
    monkeypatch.setattr(tagstore, "parse_tags", lambda *_, **__: known)
    (directory / "tags.yaml").write_text("{prod: 1-24, blue: {revision: 1-24, salt: 'a, b: {', more: [1, yes, ~]}}\n")

    DirectoryTags(directory).set(Tag("prod", (("1-30", 1),)))

    assert (directory / "tags.yaml").read_text() == (
        'prod: 1-30\nblue: {revision: 1-24, salt: "a, b: {", more: [1, true, null]}\n'
    )


def test_names_that_read_as_numbers_stay_names(directory: Path) -> None:
    tag = Tag("1", (("2", 3), ("on", 1)))

    DirectoryTags(directory).set(tag)
    DirectoryTags(directory).set(Tag("on", (("1e3", 1),)))

    assert parse_tags((directory / "tags.yaml").read_text()) == {"prod": PROD, "1": tag, "on": Tag("on", (("1e3", 1),))}


def test_an_unchanged_tag_is_not_written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagstore, "replace_file", lambda *_: pytest.fail("it was written"))

    DirectoryTags(directory).set(PROD)
    DirectoryTags(directory).remove("nope")

    assert DirectoryTags(directory).list().tags == {"prod": PROD}


def test_a_link_stays_a_link(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    target = tmp_path_factory.mktemp("elsewhere") / "tags.yaml"
    (directory / "tags.yaml").rename(target)
    (directory / "tags.yaml").symlink_to(target)

    DirectoryTags(directory).set(CANARY)

    assert (directory / "tags.yaml").is_symlink()
    assert parse_tags(target.read_text()) == {"prod": PROD, "canary": CANARY}


def test_concurrent_changes_are_all_kept(directory: Path) -> None:
    tags = [Tag(f"t-{number}", (("1-24", 1),)) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(DirectoryTags(directory).set, tags))

    assert set(DirectoryTags(directory).list().tags) == {"prod", *(tag.name for tag in tags)}


def test_a_folder_that_cannot_be_written_says_what_to_do(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(tagstore, "replace_file", fails)

    with pytest.raises(ConfigError, match=r"tags\.yaml: cannot be written: Read-only file system; run it where"):
        DirectoryTags(directory).set(CANARY)


@pytest.mark.parametrize(
    ("before", "tag", "options", "after"),
    [
        (
            "{revision: 1-24, salt: spring, shadow: {revision: 1-30, sample: 25}}",
            CANARY,
            {},
            "{weights: {1-24: 90, 1-30: 10}, salt: spring, shadow: {revision: 1-30, sample: 25}}",
        ),
        (
            "{revision: 1-24, namespaces: {payments: 1-24, test: 1-30}}",
            Tag("prod", (("1-30", 1),), namespaces={"test": (("1-24", 1), ("1-30", 1))}),
            {},
            "{revision: 1-30, namespaces: {payments: 1-24, test: {1-24: 1, 1-30: 1}}}",
        ),
        ("{revision: 1-24, namespaces: {payments: 1-24}}", NEW, {"keep_namespaces": False}, "1-30"),
        ("{revision: 1-24, shadow: {revision: 1-30}}", PROD, {"keep_shadow": False}, "1-24"),
        ("{revision: 1-24, shadow: {revision: 1-30}}", NEW, {}, "1-30"),
    ],
    ids=["salt and shadow", "namespaces", "namespaces end", "shadow ends", "its candidate gets everything"],
)
def test_a_tag_that_moves_keeps_its_options_unless_they_end(
    directory: Path, before: str, tag: Tag, options: dict[str, bool], after: str
) -> None:
    store = DirectoryTags(directory)
    (directory / "tags.yaml").write_text(f"prod: {before}\n")

    store.set(check_tag(store.list(), replace(tag, name="prod"), overwrite=True, **options))

    assert (directory / "tags.yaml").read_text() == f"prod: {after}\n"


def test_users_are_named_by_kind_twenty_at_most() -> None:
    users = [*(f"namespace n-{number}" for number in range(15)), *(f"pod n/p-{number}" for number in range(100))]

    check_unused([], doing="cannot remove it")
    with pytest.raises(TagError) as caught:
        check_unused(users, doing="cannot remove it")

    text = caught.value.what
    assert (text.count("namespace "), text.count("pod ")) == (15, 5)
    assert text.endswith("pod n/p-4 and 95 more")


def test_namespaces_follow_what_their_labels_name() -> None:
    labelled: list[tuple[str, dict[str, Any]]] = [
        ("shop", {"istio.io/rev": "prod"}),
        ("bank", {"istio.io/rev": "prod", "istio-injection": "disabled"}),
        ("old", {"istio-injection": "enabled"}),
        ("both", {"istio-injection": "enabled", "istio.io/rev": "prod"}),
        ("odd", {"istio.io/rev": 5}),
        ("none", {}),
        ("shop", {"istio.io/rev": "prod"}),
    ]

    assert namespaces_by_name(labelled) == {"prod": ("bank", "both", "shop"), "default": ("both", "old")}
