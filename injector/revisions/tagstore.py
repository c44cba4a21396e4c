"""Tags where they are kept: read, checked, written.

The checks and their texts are istioctl's (istioctl/pkg/tag, 1.30.3) and the same wherever the tags are kept: a ``TagStore`` only
reads and writes. ``DirectoryTags`` keeps them in ``tags.yaml`` of a directory of revisions.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from injector.errors import ConfigError, DataError, TagError
from injector.istio.webhooks import DEFAULT_NAME
from injector.kube.yaml import dump_yaml, load_yaml
from injector.kube.yaml.edit import with_entry, without_entry
from injector.revisions.directory import TAGS_FILE, DirectorySource, read_text
from injector.revisions.files import remove_folder, replace_file
from injector.revisions.names import is_label, list_names
from injector.revisions.tags import Tag, parse_tags
from injector.revisions.users import Users, followers, refuse_used, users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

NO_TAGS: Final = "{}\n"
"""What a file without tags holds: an empty one is refused where it is served, as one that somebody is about to write."""
# istioctl's words for what stands for a revision or a tag, kept for whoever looks for its texts.
_OBJECTS: Final = "MutatingWebhookConfiguration or Service"


@dataclass(frozen=True, slots=True)
class TagState:
    """What a store holds at one moment.

    Args:
        tags: by name, in the store's order.
        revisions: the revisions that a tag may name.
        broken: by name, revisions that are there and cannot be used, and why.
        faults: by name, tags that are there and cannot be read, and why.
    """

    tags: Mapping[str, Tag]
    revisions: tuple[str, ...]
    broken: Mapping[str, DataError] = field(default_factory=dict)
    faults: Mapping[str, DataError] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Tell whether there is a tag of that name, readable or not."""
        return name in self.tags or name in self.faults


class TagStore(Protocol):
    """Where tags are kept. It checks nothing: ``set_tag`` and ``remove_tag`` do, on what ``list`` says."""

    def list(self) -> TagState:
        """Return the tags, and what must be known to change them; raise an InjectorError where that fails."""

    def namespaces(self) -> Mapping[str, tuple[str, ...]]:
        """Return the namespaces that follow each revision or tag; raise an InjectorError where that fails."""

    def users(self, name: str) -> Users:
        """Return what follows a revision or tag by its labels; raise an InjectorError where that fails."""

    def set(self, tag: Tag) -> None:
        """Write one tag, new or in place of the one of its name; raise an InjectorError where that fails."""

    def remove(self, name: str) -> None:
        """Remove one tag, if it is there; raise an InjectorError where that fails."""

    def remove_revision(self, name: str) -> None:
        """Take one revision out of service; raise an InjectorError where that fails."""


def set_tag(store: TagStore, tag: Tag, *, overwrite: bool = False, keep_shadow: bool = True) -> None:
    """Write ``tag`` to the store, as ``checked_tag`` has it.

    Raises:
        TagError: ``check_tag`` refuses it.
    """
    store.set(checked_tag(store.list(), tag, overwrite=overwrite, keep_shadow=keep_shadow))


def checked_tag(state: TagState, tag: Tag, *, overwrite: bool = False, keep_shadow: bool = True) -> Tag:
    """Return ``tag`` as it is to be written; moved, it keeps its salt and its shadow.

    A shadow whose candidate now gets everything ends.

    Raises:
        TagError: ``check_tag`` refuses it.
    """
    check_tag(state, tag, overwrite=overwrite)
    before = state.tags.get(tag.name, tag)
    shadow = tag.shadow or (before.shadow if keep_shadow else None)
    if shadow is not None and tag.sole and shadow.revision == tag.revision:
        shadow = None
    return replace(tag, salt=tag.salt or before.salt, shadow=shadow)


def check_tag(state: TagState, tag: Tag, *, overwrite: bool = False) -> None:
    """Check that ``tag`` can be made, in istioctl's order.

    Raises:
        TagError: it would hide a revision of its name, leads to a revision that is not there, or is there already and
            ``overwrite`` is false.
    """
    if tag.name != DEFAULT_NAME and (tag.name in state.revisions or tag.name in state.broken):
        raise TagError(
            f'cannot create revision tag "{tag.name}": found existing control plane revision with same name',
            hint="choose another name: requests for that revision could not reach it",
        )
    for name in (*tag.targets, *(() if tag.shadow is None else (tag.shadow.revision,))):
        find_revision(state, name, doing="cannot modify tag")
    if state.has(tag.name) and not overwrite:
        before = state.tags.get(tag.name)
        now = "it cannot be read" if before is None else f"it leads to {shown_target(before)}"
        raise TagError(
            f'revision tag "{tag.name}" already exists, and --overwrite is false',
            hint=f"{now}; add --overwrite to move it",
        )


def remove_tag(store: TagStore, name: str, *, force: bool = False) -> None:
    """Remove a tag from the store; ``force`` does not ask who uses it.

    Raises:
        TagError: there is none of that name, or it is in use; the text names the first of its users.
    """
    state = store.list()
    if name not in state.faults:
        find_tag(state, name, doing=f'cannot remove tag "{name}"')
    if not force:
        refuse_used(store.users(name), doing=f'cannot remove tag "{name}"')
    store.remove(name)


def check_removable(store: TagStore, name: str, *, force: bool = False) -> None:
    """Check that a revision can be removed; ``force`` does not ask who uses it.

    Raises:
        TagError: there is none of that name, or it is in use; the text names the first of its users: the tags that
            lead to it, and what follows it by labels.
    """
    state, doing = store.list(), f'cannot remove revision "{name}"'
    if name not in state.broken:
        find_revision(state, name, doing=doing)
    if force:
        return
    # A tag that cannot be read may lead anywhere.
    unread = [tag for tag in state.faults if tag not in state.tags]
    tags = users("tag", [*(tag.name for tag in state.tags.values() if _leads_to(tag, name)), *unread])
    # Labels that name a revision and a tag alike, which only `default` may be, follow the tag.
    refuse_used(tags if state.has(name) else tags + store.users(name), doing=doing)


def _leads_to(tag: Tag, revision: str) -> bool:
    return revision in tag.targets or (tag.shadow is not None and tag.shadow.revision == revision)


def find_tag(state: TagState, name: str, *, doing: str = "") -> Tag:
    """Return the tag of that name; ``doing`` begins the text of the error.

    Raises:
        TagError: there is none, with the tags that there are, or it cannot be read, with the reason.
    """
    if name in state.faults and name not in state.tags:
        raise TagError(f'tag "{name}" cannot be read', hint=str(state.faults[name]))
    if name not in state.tags:
        shown = f"{doing}: cannot find {_OBJECTS} for tag" if doing else f'cannot find {_OBJECTS} for tag "{name}"'
        raise TagError(
            shown,
            hint=_known("tags", state.tags),
        )
    return state.tags[name]


def find_revision(state: TagState, name: str, *, doing: str = "") -> None:
    """Check that a revision can be used; ``doing`` begins the text of the error.

    Raises:
        TagError: there is none of that name, with those that there are, or it cannot be read, with the reason.
    """
    what = f"{doing}: " if doing else ""
    if name in state.broken:
        raise TagError(f'{what}revision "{name}" cannot be read', hint=str(state.broken[name]))
    if name not in state.revisions:
        raise TagError(
            f'{what}cannot find {_OBJECTS} with revision "{name}"',
            hint=_known("revisions", state.revisions),
        )


def shown_target(tag: Tag) -> str:
    """Return where a tag leads as one word: ``1-24``, or ``1-24=90,1-30=10``."""
    return tag.revision if len(tag.weights) == 1 else ",".join(f"{name}={weight}" for name, weight in tag.weights)


@dataclass(frozen=True, slots=True)
class DirectoryTags:
    """The tags of a directory of revisions, kept in its ``tags.yaml``.

    Each change is one atomic rename and leaves the other entries as they stand: order, comments, layout. Changes by
    several processes wait for each other.
    """

    path: Path

    def list(self) -> TagState:
        """Return the tags and the revisions.

        Raises:
            DataError: the directory or ``tags.yaml`` cannot be read.
        """
        found = DirectorySource(self.path).read()
        if found.tags_error is not None:
            raise found.tags_error
        names = tuple(raw.name for raw in found.revisions)
        return TagState(found.tags, names, found.failures)

    def namespaces(self) -> Mapping[str, tuple[str, ...]]:
        """Return the namespaces that ``revision.yaml`` of any revision labels, by the revision or tag that they name.

        Raises:
            DataError: the directory cannot be read.
        """
        return followers(
            (namespace, _mapping(_mapping(facts).get("labels")))
            for raw in DirectorySource(self.path).read().revisions
            for namespace, facts in _mapping(raw.settings.get("namespaces")).items()
        )

    def users(self, name: str) -> Users:
        """Return the namespaces of ``namespaces`` that follow a revision or tag.

        Raises:
            DataError: the directory cannot be read.
        """
        return users("namespace", self.namespaces().get(name, ()))

    def set(self, tag: Tag) -> None:
        """Write one tag.

        Raises:
            ConfigError: ``tags.yaml`` cannot be read or written.
        """
        self._change(lambda text: with_entry(text, tag.name, _entry(tag)), tag.name, tag)

    def remove(self, name: str) -> None:
        """Remove one tag, if it is there.

        Raises:
            ConfigError: ``tags.yaml`` cannot be read or written.
        """
        self._change(lambda text: without_entry(text, name), name, None)

    def remove_revision(self, name: str) -> None:
        """Delete a revision's folder, which is gone at once for who reads the directory.

        Raises:
            ConfigError: it cannot be deleted.
        """
        try:
            with _alone(self.path):
                remove_folder(self.path / name)
        except OSError as error:
            raise _unwritable(self.path / name, error) from error

    def _change(self, edit: Callable[[str], str | None], name: str, tag: Tag | None) -> None:
        # A link stays one: the file that it leads to is replaced.
        path = (self.path / TAGS_FILE).resolve()
        try:
            with _alone(self.path):
                text = (read_text(path) or "").removeprefix(NO_TAGS)
                before = parse_tags(text, where=str(path))
                after = _with(before, name, tag)
                if after != before:
                    edited = edit(text)
                    kept = edited if edited is not None and _meaning(edited) == list(after.values()) else None
                    written = _anew(text, name, tag) if kept is None else kept
                    replace_file(path, written if written.strip() else NO_TAGS)
        except OSError as error:
            raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot be written: {error.strerror}",
        where=str(path),
        hint="run it where the folder can be written; a mounted ConfigMap is changed in the cluster",
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system gives back with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _with(entries: Mapping[str, T], name: str, entry: T | None) -> dict[str, T]:
    if entry is not None:
        return {**entries, name: entry}
    return {other: kept for other, kept in entries.items() if other != name}


def _anew(text: str, name: str, tag: Tag | None) -> str:
    """Return ``text`` with one entry changed and its layout lost, but for the comment that it begins with.

    The others are written from what ``text`` holds, not from what was understood of it, so that none loses a key.
    """
    head = "".join(takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    others = {other: _flow(value) for other, value in (load_yaml(text) or {}).items()}
    entries = _with(others, name, None if tag is None else _entry(tag))
    return head + "".join(f"{_flow(key)}: {entry}\n" for key, entry in entries.items())


def _meaning(text: str) -> list[Tag] | None:
    try:
        return list(parse_tags(text).values())
    except DataError:
        return None


def _entry(tag: Tag) -> str:
    plain = len(tag.weights) == 1 and tag.weights[0][1] == 1
    if not tag.salt and tag.shadow is None:
        return _flow(tag.revision if plain else dict(tag.weights))
    entry: dict[str, Any] = {"revision": tag.revision} if plain else {"weights": dict(tag.weights)}
    if tag.salt:
        entry["salt"] = tag.salt
    if tag.shadow is not None:
        entry["shadow"] = {"revision": tag.shadow.revision, "sample": tag.shadow.sample}
    return _flow(entry)


def _flow(value: Any) -> str:
    """Return JSON data as YAML of one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(key)}: {_flow(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str) and not is_label(value):
        return json.dumps(value, ensure_ascii=False)
    return dump_yaml(value).rstrip("\n")


def _known(kind: str, names: Iterable[str]) -> str:
    known = list_names(names)
    return f"known {kind} are {known}" if known else f"there are no {kind}"


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping: whether it should have been one is for ``revision verify`` to say."""
    return value if isinstance(value, dict) else {}
