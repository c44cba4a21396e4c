"""Tag stores: where tags are read and written, and the checks before a change.

The checks and their texts are those of istioctl (istioctl/pkg/tag, 1.30.3), whatever the store. ``DirectoryTags`` has the tags of a
directory of revisions; ``clustertags.ClusterTags`` has those of a cluster.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from injector.errors import ConfigError, DataError, TagError
from injector.hints import first_of
from injector.istio.labels import DEFAULT_NAME, INJECTION_LABEL, REVISION_LABEL
from injector.kube.objects import mapping_at
from injector.kube.selectors import is_dns_label
from injector.kube.yaml import dump_yaml, load_yaml
from injector.kube.yaml.write import with_entry, without_entry
from injector.revisions.directory import TAGS_FILE, read_directory
from injector.revisions.files import read_text, remove_folder, replace_file
from injector.revisions.source import options_of_values
from injector.revisions.tags import Tag, parse_tags

if TYPE_CHECKING:
    from pathlib import Path

    from injector.istio.webhooks.configurations import WebhookOptions
    from injector.revisions.source import RawRevision

T = TypeVar("T")

MAX_LISTED: Final = 20
"""The maximum number of users that a message names."""
NO_TAGS: Final = "{}\n"
"""A tags file without tags. An empty file would be refused, because it may be in the middle of being written."""
# istioctl's words for the object of a revision or tag, so that its texts can be searched for.
_OBJECTS: Final = "MutatingWebhookConfiguration or Service"


def check_unused(users: Sequence[str], *, doing: str) -> None:
    """Raise a TagError that names the first users of a revision or tag, if it has some; ``doing`` is the start of the text."""
    if users:
        hint = "move, relabel or restart them first, or add --force: new pods then get no sidecars"
        raise TagError(f"{doing}: it is in use by {first_of(users, MAX_LISTED)}", hint=hint)


def namespaces_by_name(namespaces: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[str, ...]]:
    """Return the namespaces that name each revision or tag, from all namespaces with their labels.

    ``istio-injection=enabled`` names the default.
    """
    namespaces_of: dict[str, set[str]] = {}
    for namespace, labels in namespaces:
        for name in (labels.get(REVISION_LABEL), DEFAULT_NAME if labels.get(INJECTION_LABEL) == "enabled" else None):
            if isinstance(name, str):
                namespaces_of.setdefault(name, set()).add(namespace)
    return {name: tuple(sorted(values)) for name, values in namespaces_of.items()}


@dataclass(frozen=True, slots=True)
class TagState:
    """The content of a store at one moment.

    Args:
        tags: by name, in the store's order.
        revisions: the revisions that a tag may name.
        broken: the errors of revisions that cannot be used, by name.
        faults: the errors of tags that cannot be read, by name.
        webhook_faults: the faults of the webhooks of a cluster, one line each.
        texts: the texts of revisions, by name. A cluster can have a revision without texts.
    """

    tags: Mapping[str, Tag]
    revisions: tuple[str, ...]
    broken: Mapping[str, DataError] = field(default_factory=dict)
    faults: Mapping[str, DataError] = field(default_factory=dict)
    webhook_faults: tuple[str, ...] = ()
    texts: Mapping[str, RawRevision] = field(default_factory=dict)

    def webhook_options(self, revision: str, options: WebhookOptions) -> WebhookOptions:
        """Return the options of the webhooks of a revision: those of its values, unless ``options`` say more."""
        raw = self.texts.get(revision)
        return options if raw is None else options_of_values(raw, options)

    def has(self, name: str) -> bool:
        """Tell whether there is a tag with this name, readable or not."""
        return name in self.tags or name in self.faults

    def find_tag(self, name: str, *, doing: str = "") -> Tag:
        """Return a tag. Raises TagError, whose text starts with ``doing``, if it does not exist or cannot be read."""
        if name in self.faults and name not in self.tags:
            raise TagError(f'tag "{name}" cannot be read', hint=str(self.faults[name]))
        if name not in self.tags:
            what = f"{doing}: cannot find {_OBJECTS} for tag" if doing else f'cannot find {_OBJECTS} for tag "{name}"'
            raise TagError(what, hint=_known_names("tags", self.tags))
        return self.tags[name]

    def check_revision(self, name: str, *, doing: str = "") -> None:
        """Raise a TagError, whose text starts with ``doing``, if a revision does not exist or cannot be read."""
        what = f"{doing}: " if doing else ""
        if name in self.broken:
            raise TagError(f'{what}revision "{name}" cannot be read', hint=str(self.broken[name]))
        if name not in self.revisions:
            hint = _known_names("revisions", self.revisions)
            raise TagError(f'{what}cannot find {_OBJECTS} with revision "{name}"', hint=hint)


class TagStore(Protocol):
    """A store of tags. It does not check changes; the functions below do. All methods raise InjectorError if the store fails."""

    def list(self) -> TagState:
        """Return the tags, and the revisions that they may name."""

    def users(self, name: str) -> Sequence[str]:
        """Return the users of a revision or tag, by their labels: each with its kind and name."""

    def gateways(self, tag: str) -> Sequence[str]:
        """Return the Gateways of the Gateway API whose label names a tag, as ``users`` does. They need no webhook of a revision."""

    def sidecars(self, revision: str) -> Sequence[str]:
        """Return the running pods with a sidecar of a revision: each with its kind and name."""

    def remove(self, name: str) -> None:
        """Remove a tag if it exists."""


def check_tag(
    state: TagState, tag: Tag, *, overwrite: bool = False, keep_shadow: bool = True, keep_namespaces: bool = True
) -> Tag:
    """Return ``tag`` as it is to be written. A tag that moves keeps its salt, its shadow and the weights of namespaces.

    A shadow ends once its candidate receives all workloads.

    Raises:
        TagError: the tag would hide a revision of its name, leads to a missing revision, or exists and ``overwrite`` is false.
    """
    before = state.tags.get(tag.name, tag)
    if keep_namespaces:
        tag = replace(tag, namespaces={**before.namespaces, **tag.namespaces})
    _check_tag(state, tag, overwrite=overwrite)
    shadow = tag.shadow or (before.shadow if keep_shadow else None)
    if shadow is not None and tag.sole and shadow.revision == tag.revision:
        shadow = None
    return replace(tag, salt=tag.salt or before.salt, shadow=shadow)


def _check_tag(state: TagState, tag: Tag, *, overwrite: bool) -> None:
    """Make istioctl's checks, in its order."""
    if tag.name != DEFAULT_NAME and (tag.name in state.revisions or tag.name in state.broken):
        raise TagError(
            f'cannot create revision tag "{tag.name}": found existing control plane revision with same name',
            hint="choose another name: requests for that revision could not reach it",
        )
    for name in tag.revisions:
        state.check_revision(name, doing="cannot modify tag")
    if state.has(tag.name) and not overwrite:
        before = state.tags.get(tag.name)
        now = state.faults[tag.name].what if before is None else f"it leads to {before.destination}"
        raise TagError(
            f'revision tag "{tag.name}" already exists, and --overwrite is false',
            hint=f"{now}; add --overwrite to replace it",
        )


def remove_tag(store: TagStore, name: str, *, force: bool = False) -> None:
    """Remove a tag. Raises TagError if it does not exist, or if it is in use and ``force`` is false."""
    state, doing = store.list(), f'cannot remove tag "{name}"'
    if name not in state.faults:
        state.find_tag(name, doing=doing)
    if not force:
        check_unused([*store.users(name), *store.gateways(name)], doing=doing)
    store.remove(name)


def check_removable(store: TagStore, name: str, *, force: bool = False) -> None:
    """Check that a revision can be removed; ``force`` allows it even if it is in use.

    Raises:
        TagError: the revision does not exist, or is in use. The text names the first of its users: the tags that lead to it, the
            namespaces and pods that have its label, and the pods that have its sidecar.
    """
    state, doing = store.list(), f'cannot remove revision "{name}"'
    if name not in state.broken:
        state.check_revision(name, doing=doing)
    if force:
        return
    # A tag that cannot be read may lead to any revision.
    unread = [tag for tag in state.faults if tag not in state.tags]
    tags = [f"tag {tag}" for tag in (*(tag.name for tag in state.tags.values() if name in tag.revisions), *unread)]
    # If a tag has the same name, which only `default` may have, labels follow the tag.
    labelled = () if state.has(name) else store.users(name)
    check_unused(list(dict.fromkeys([*tags, *labelled, *store.sidecars(name)])), doing=doing)


@dataclass(frozen=True, slots=True)
class DirectoryTags:
    """The tags of a directory of revisions, in its ``tags.yaml``.

    A change is one atomic rename and keeps the order, comments and layout of the other entries. A lock serializes changes by several
    processes. All methods raise DataError if a file cannot be read or written.
    """

    path: Path

    def list(self) -> TagState:
        """Return the tags and the revisions."""
        state = read_directory(self.path)
        if state.tags_error is not None:
            raise state.tags_error
        texts = {raw.name: raw for raw in state.revisions}
        return TagState(state.tags, tuple(texts), state.failures, texts=texts)

    def namespaces(self) -> Mapping[str, tuple[str, ...]]:
        """Return the namespaces in the ``revision.yaml`` of any revision, by the revision or tag that their labels name."""
        # `revision verify` reports a value that is not a mapping.
        return namespaces_by_name(
            (namespace, mapping_at(facts, "labels"))
            for raw in read_directory(self.path).revisions
            for namespace, facts in mapping_at(raw.settings, "namespaces").items()
        )

    def users(self, name: str) -> Sequence[str]:
        """Return the namespaces that name a revision or tag; see ``namespaces``."""
        return [f"namespace {namespace}" for namespace in self.namespaces().get(name, ())]

    def gateways(self, tag: str) -> Sequence[str]:
        """Return nothing, because a directory knows no Gateways."""
        del tag
        return ()

    def sidecars(self, revision: str) -> Sequence[str]:
        """Return nothing, because a directory knows no pods."""
        del revision
        return ()

    def set(self, tag: Tag) -> None:
        """Write one tag."""
        self._change(tag.name, tag)

    def remove(self, name: str) -> None:
        """Remove a tag if it exists."""
        self._change(name, None)

    def remove_revision(self, name: str) -> None:
        """Delete a revision's folder; readers of the directory see it disappear at once."""
        with self._lock(self.path / name):
            remove_folder(self.path / name)

    def _change(self, name: str, tag: Tag | None) -> None:
        # A link stays a link: its target is replaced.
        path = (self.path / TAGS_FILE).resolve()
        with self._lock(path):
            text = (read_text(path) or "").removeprefix(NO_TAGS)
            before = parse_tags(text, where=str(path))
            after = _with(before, name, tag)
            if after != before:
                edited = without_entry(text, name) if tag is None else with_entry(text, name, _flow(_entry(tag)))
                if edited is None or _tags_in(edited) != list(after.values()):
                    edited = _rewritten(text, name, tag)
                replace_file(path, [edited if edited.strip() else NO_TAGS])

    @contextmanager
    def _lock(self, path: Path) -> Iterator[None]:
        """Hold a lock on the directory, which ends with the process at the latest, for a change of ``path``."""
        try:
            handle = os.open(self.path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)
        except OSError as error:
            hint = "run it where the folder can be written; a mounted ConfigMap is changed in the cluster"
            raise ConfigError(f"cannot be written: {error.strerror}", where=str(path), hint=hint) from error


def _with(entries: Mapping[str, T], name: str, entry: T | None) -> dict[str, T]:
    if entry is not None:
        return {**entries, name: entry}
    return {other: value for other, value in entries.items() if other != name}


def _rewritten(text: str, name: str, tag: Tag | None) -> str:
    """Return ``text`` with one entry changed, without its layout except for the leading comment.

    The other entries are written from the YAML, not from the parsed tags, so that they lose no key.
    """
    head = "".join(takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    entries = _with(load_yaml(text) or {}, name, None if tag is None else _entry(tag))
    return head + "".join(f"{_flow(key)}: {_flow(value)}\n" for key, value in entries.items())


def _tags_in(text: str) -> list[Tag] | None:
    try:
        return list(parse_tags(text).values())
    except DataError:
        return None


def _entry(tag: Tag) -> str | dict[str, Any]:
    """Return the value of a tag in ``tags.yaml``."""
    is_plain = len(tag.weights) == 1 and tag.weights[0][1] == 1
    if not tag.options:
        return tag.revision if is_plain else dict(tag.weights)
    return {**({"revision": tag.revision} if is_plain else {"weights": dict(tag.weights)}), **tag.options}


def _flow(value: Any) -> str:
    """Return a value of ``tags.yaml`` as one line of YAML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(key)}: {_flow(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str) and not is_dns_label(value):
        return json.dumps(value, ensure_ascii=False)
    return dump_yaml(value).rstrip("\n")


def _known_names(kind: str, names: Iterable[str]) -> str:
    known = first_of(sorted(names))
    return f"known {kind} are {known}" if known else f"there are no {kind}"
