"""The guard against values of a pod that break out of a template: that change more of the overlay than the text they are inserted into.

A template inserts annotations, labels and names into YAML. If one of them is dangerous, the templates are rendered twice more, with two
different fillers in place of all dangerous values. Where these two renderings differ, a value is inserted. Everywhere else the real
rendering must equal them: keys, list lengths, types and texts. At a place of insertion it may be any scalar that has the template's text
around the value. Otherwise the pod is refused, and the value is found by replacing fewer and fewer values.

The dangerous characters are those of YAML 1.2: chapters 5.2 to 5.4 (character set, indicators, line breaks) and 7.3.3 (plain style). A
filler replaces only these by a letter, so that a template that tests the value (``contains "/"``, ``trunc 63``) mostly treats the filler
like the value.

A pod without a dangerous value costs one look at its texts. Annotations that no template can read do not count (``istio.template``). Any
other dangerous value costs one more rendering, even if no template reads it.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import dropwhile, takewhile
from operator import or_
from typing import TYPE_CHECKING, Any, Final, Protocol

from injector.errors import BreakOutError, DataError
from injector.golang.json import dump_json
from injector.injection.data import PROXY_IMAGE_TYPE, namespaced_name, template_data, value_at
from injector.injection.result import ENFORCE, OFF
from injector.istio.annotations import PROXY_CONFIG
from injector.istio.template import reads
from injector.kube.typed import struct_type
from injector.kube.yaml import load_yaml
from injector.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from injector.injection import containers as c
    from injector.injection.data import Parameters
    from injector.istio.revision import Revision
    from injector.istio.template import TemplateData

# Quotes, the escape of double quotes, flow collections, and all that is not printable text; with the line breaks of YAML 1.1.
_SPECIAL: Final = "\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff\"'\\\\{}\\[\\]"
_CONTROL: Final = r"\x00-\x1f\x7f-\x9f"
_LINE_BREAK: Final = r"[\r\n\x85\u2028\u2029]"
# Anchors, aliases, tags, block scalars, directives, reserved indicators, comments.
_LEADING: Final = "#&!|>%@`*"
_DANGEROUS: Final = re.compile(
    # YAML folds a line break with the spaces around it. (Each run of spaces is looked at once, from its beginning.)
    rf"(?<!\s)\s*{_LINE_BREAK}\s*|[{_CONTROL}{_SPECIAL}]"
    # A colon ends a key before a space and, in flow collections, before what ends the value; at the end, the template's text decides.
    r"|:(?=[\s,\[\]{}]|\Z)|(?<!\s)\s+#"
    # A ``*`` alone is not an alias.
    rf"|\A(?:[{_LEADING},](?<!\*)|\*(?!\Z)|\s+|[-:](?=\s|\Z)|---|\.\.\.)|(?<!\s)\s+\Z"
    # A ``?`` begins a key, in flow collections also without a space. ``<<`` as a key merges its value into the mapping.
    r"|\?(?<![^,]\?)|\A<<\Z"
)
# Characters that are harmless wherever they are in a text, but for a few at its ends.
_HARMLESS: Final = bytes({*range(0x21, 0x7F)} - set(f"\"'\\{{}}[],{_LEADING}".encode()))
_HARMFUL_ENDS: Final = {b"?": (b'"?',), b"<": (b'"<<"',), b'"-': (b'"-"', b'"---'), b".": (b'"...',), b":": (b':"',)}
"""Dangerous texts of harmless characters, or their beginnings and ends with the quote there. The key is a part of them, which is
looked for first, because that is faster."""
_HARMFUL_COMMAS: Final = (b'",', b",?", b":,")
_COLON: Final = b"\0"
_STRUCTURE: Final = b'{}[],"' + _COLON
"""The characters of JSON around texts, with another one in place of the colon."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*+")
"""Texts that are never dangerous, which is found out sooner than that they are not."""

_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9]")
_ANY: Final = re.compile(r".", re.DOTALL)
_JSON_TOKEN: Final = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<space>[ \t\r\n]+)|(?P<mark>[\[\]{}:,])', re.DOTALL)

DECODERS: Final = frozenset({"b32dec", "b64dec", "decryptAES", "urlParse"})
"""Functions that turn a text that looks harmless into a dangerous one. (JSON has quotes, so it looks dangerous.)"""
# A DNS label, such as the names of workloads, containers and namespaces.
_WORD: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}|%[0-9A-Fa-f]{2}")
_NO_SLASH: Final = re.compile(r"[^/]")
_UNIFORM: Final = "V"
"""A text of this letter decodes to ``UUU...``, wherever decoding begins."""
_GROUP: Final = 4


def is_dangerous(text: str) -> bool:
    """Return whether a text could end the scalar that it is inserted into, or begin another one."""
    return _DANGEROUS.search(text) is not None


def is_encoded(text: str) -> bool:
    """Return whether a text is dangerous, or may be dangerous once decoded, as any text but a plain name may."""
    if is_dangerous(text):
        return True
    if _WORD.fullmatch(text):
        return is_dangerous(_decoded(text) or "")
    return _ENCODED.search(text) is not None


def none_dangerous(value: Any) -> bool:
    """Return whether no text in JSON data is dangerous. It is fast, but False for some harmless texts: with spaces, or beyond ASCII."""
    try:
        encoded = dump_json(value)
    except DataError:
        return False
    if b"\\" in encoded:
        return False
    # Without escapes, a colon after a quote is between a key and its value, or begins a text.
    texts = encoded.replace(b'":', b'"' + _COLON)
    rest = texts.translate(None, _HARMLESS)
    if rest.translate(None, _STRUCTURE):
        return False
    if rest.count(b'"') != 2 * rest.count(b'""'):
        # A text has a character of the structure. Every second piece between quotes is a text.
        texts = b'"%b"' % b'"'.join(encoded.split(b'"')[1::2])
        if texts.translate(None, _HARMLESS + b'",') or any(ends in texts for ends in _HARMFUL_COMMAS):
            return False
    return not any(ends in texts for part, every in _HARMFUL_ENDS.items() if part in texts for ends in every)


def decodes(revision: Revision) -> bool:
    """Return whether a template of a revision calls one of ``DECODERS``."""
    return not DECODERS.isdisjoint(revision.functions_called)


def is_document(text: str) -> bool:
    """Return whether a text is JSON that a template may decode, other than a number or word."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Filler:
    """Makes inert texts: a letter replaces each dangerous character, and those of ``others`` too.

    ``space`` is the space between the tokens of JSON documents. If it is None, a document is a text like any other. Otherwise it stays the
    same document for a decoder, and only the dangerous texts in it are replaced. ``decoding`` is whether the templates call one of
    ``DECODERS``.
    """

    letter: str
    others: re.Pattern[str] | None = None
    space: str | None = None
    decoding: bool = False

    def fill(self, text: str) -> str:
        """Return the text to insert in place of ``text``."""
        if self.space is not None and is_document(text):
            return self.space + _JSON_TOKEN.sub(self._token, text) + self.space
        return self._inert(text)

    def _inert(self, text: str) -> str:
        while _DANGEROUS.search(text):
            text = _DANGEROUS.sub(lambda found: self.letter * len(found[0]), text)
        if self.decoding and not _WORD.fullmatch(text):
            return _ENCODED.sub(self._recoded, text)
        return self.others.sub(self.letter, text) if self.others else text

    def _token(self, found: re.Match[str]) -> str:
        if found["space"] is not None:
            return self.space or ""
        if found["mark"] is not None:
            return f"{self.space}{found['mark']}{self.space}"
        text = json.loads(found["string"], strict=False)
        return json.dumps(self._inert(text)) if is_dangerous(text) else found["string"]

    def _recoded(self, found: re.Match[str]) -> str:
        text = _decoded(found[0])
        if text is None:
            # More likely a path or an image, in which templates look for the slash.
            return _NO_SLASH.sub(self.letter, found[0])
        if self.letter == FILLERS[1].letter:
            return _UNIFORM * len(found[0])
        return base64.b64encode(replace(self, decoding=False).fill(text).encode()).decode()


def _decoded(text: str) -> str | None:
    if len(text) % _GROUP:
        return None
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


FILLERS: Final = (Filler("x"), Filler("7"))
"""Replace a value in the two renderings that are compared."""
DOCUMENT_FILLERS: Final = (Filler("x", space=""), Filler("7", space="\n\t"))
"""The same if a template decodes JSON. With line breaks and tabs, a document is still JSON, but not YAML."""
MORE_FILLERS: Final = (Filler("J"), Filler("k", _ALPHANUMERIC), Filler("W", _ANY), Filler("3", _ANY))
"""Tell which characters of a text are the template's if the first two renderings have some in common by chance: in a hash, an encoding, or
parts of the value that the template changes."""


Path = tuple[str | int, ...]

_RESOURCES: Final = "proxyConfigs"
_MAPS: Final = ("annotations", "labels")
# Each probe halves the values that a refusal may mean.
_PROBES: Final = 10
# A pod with more texts takes long to render: it gets one probe.
_LARGE: Final = 4_000
_MAX_SHOWN: Final = 200
# Inserted keys that may be out of order.
_CANDIDATES: Final = 8
_EQUAL_BYTES: Final = re.compile(rb"\0+")
_SHOWN_TYPES: Final = ("v1.Pod", "v1.PodSpec", "v1.ObjectMeta", "v1.Container")
_HINT: Final = "take quotes, line breaks and other syntax of YAML out of it"
_BRANCH_HINT: Final = f"{_HINT}; if the template is meant to decide by them, run the guard with `warn`"


class PodTemplates(Protocol):
    """The templates of one pod, and what becomes of their texts."""

    def render(self, data: TemplateData) -> Any:
        """Render the templates for template data, and parse the text."""

    def trees(self, rendered: Any) -> Any:
        """Return the JSON data of what ``render`` returned, which is compared."""

    def merge(self, rendered: Any) -> Any:
        """Make the result of what ``render`` returned."""


class TemplateGuard:
    """Compares what templates rendered for a pod with renderings of fillers, and finds the value to name.

    ``seen`` is the pod as templates see it.
    """

    def __init__(self, params: Parameters, seen: c.Pod, templates: PodTemplates) -> None:
        self._params = params
        self._seen = seen
        self._templates = templates
        self._given = _document(params, seen)
        # The dangerous texts; the first one is the first to be suspected.
        self._texts = [] if params.guard == OFF else _dangerous_texts(params, self._given)

    def check(self, rendered: Any) -> tuple[str, ...]:
        """Return the findings of a guard that only warns about what templates rendered. Raises BreakOutError if the guard enforces."""
        error = self._finding(self._templates.trees(rendered)) if self._texts else None
        if error is not None and self._params.guard == ENFORCE:
            raise error
        return () if error is None else (str(error),)

    def check_failure(self, cause: DataError) -> None:
        """Check why the templates, or merging what they rendered, failed.

        Raises BreakOutError if they would not fail without a dangerous value, and the guard enforces.
        """

        def fails(texts: Sequence[str]) -> bool:
            try:
                self._templates.merge(self._templates.render(self._data(texts, None)))
            except DataError:
                return True
            return False

        if self._texts and self._params.guard == ENFORCE and not fails(self._texts):
            what = "the value makes the template fail, or render what is not YAML"
            raise BreakOutError(what, where=self._named(fails), hint=_HINT) from cause

    def _finding(self, real: Any) -> BreakOutError | None:
        """Return the error for a real rendering; None if no value breaks out."""
        decoding, compared = decodes(self._params.revision), []
        for fillers in (FILLERS, DOCUMENT_FILLERS) if any(map(is_document, self._texts)) else (FILLERS,):
            renderings = [self._rendering(self._texts, fillers[0])]
            if not decoding and fillers is FILLERS and mismatch(real, renderings) is None:
                return None
            renderings.append(self._rendering(self._texts, fillers[1]))
            found = None if None in renderings else mismatch(real, renderings)
            if found is None and None not in renderings:
                return None
            compared.append((fillers[0], renderings, found))
        for filler, renderings, found in compared:
            if found is not None and found.inserted and self._fits(real, filler, renderings):
                return None
        # The comparison that got furthest tells most.
        filler, _, found = max(compared, key=lambda each: each[2] is not None)
        return self._error(real, filler, found)

    def _rendering(self, texts: Sequence[str], filler: Filler) -> Any:
        """Render the templates with fillers in place of ``texts``; None if they fail."""
        try:
            data = self._data(texts, replace(filler, decoding=decodes(self._params.revision)))
            return self._templates.trees(self._templates.render(data))
        except DataError:
            return None

    def _fits(self, real: Any, first: Filler, renderings: list[Any]) -> bool:
        """Return whether more renderings show that only text differs that the first two had in common by chance."""
        for filler in MORE_FILLERS:
            more = [*renderings, self._rendering(self._texts, replace(filler, space=first.space))]
            found = None if more[-1] is None else mismatch(real, more)
            if more[-1] is not None and found is None:
                return True
            if found is not None and found.inserted:
                renderings = more
        return False

    def _error(self, real: Any, filler: Filler, found: Mismatch | None) -> BreakOutError:
        def is_as_real(texts: Sequence[str]) -> bool:
            rendering = self._rendering(texts, filler)
            if rendering is None or found is None:
                return rendering is not None
            one, other = value_at(real, found.path), value_at(rendering, found.path)
            return bool(_shape(one) == _shape(other) if found.shape else one == other)

        if found is None:
            what = "the value cannot be checked: the template fails without its special characters"
        else:
            what = f"the value breaks out of the template: it changes {shown(found.path) or 'more than its own text'}"
        return BreakOutError(what, where=self._named(is_as_real), hint=_BRANCH_HINT)

    def _named(self, is_as_real: Callable[[Sequence[str]], bool]) -> str:
        """Return where the value is without which the templates render something else than they really do.

        ``is_as_real`` tells whether they render the same with some texts replaced: they do with none and do not with all.
        """
        texts, probes = self._texts, _PROBES if len(texts_of(self._given)) <= _LARGE else 1
        start, end, middle = 0, len(texts), 1
        while end - start > 1 and probes:
            probes -= 1
            start, end = (start, middle) if is_as_real(texts[middle:]) else (middle, end)
            middle = (start + end) // 2
        others = end - start - 1
        place = _place(_without_unread(self._params, self._given), texts[start])
        return place + (f", or one of {others} other values" if others else "")

    def _data(self, texts: Sequence[str], filler: Filler | None) -> TemplateData:
        """Return template data with fillers in place of texts; if ``filler`` is None, without the annotations and labels that have them.

        Raises DataError if with them the annotation ``proxy.istio.io/config`` is not a ProxyConfig.
        """
        chosen = {text: (filler or FILLERS[0]).fill(text) for text in texts}
        given = _replaced(self._given, chosen)
        if filler is None:
            for kind in ("metadata", "owner"):
                for name in _MAPS:
                    if given.get(kind, {}).get(name):
                        entries = self._given[kind][name].items()
                        given[kind][name] = {k: v for k, v in entries if _key(k, chosen) == k and v not in chosen}
        params = self._params
        overlays = params.overlays._replace(**given.get(_RESOURCES, {}))
        if overlays.annotation in chosen:
            overlays = overlays._replace(annotation=_filled(overlays.annotation, filler))
        overlaid = params.proxy_config if overlays == params.overlays else overlays.on(params.revision)
        changed = params._replace(
            workload=replace(params.workload, **given["workload"]),
            owner_meta=given.get("owner", params.owner_meta),
            proxy_config=overlaid,
            mesh_in_data=overlaid if params.mesh_in_data is params.proxy_config else params.mesh_in_data,
        )
        return template_data(changed, {**self._seen, "metadata": given["metadata"], "spec": given["spec"]})


def _filled(text: str, filler: Filler | None) -> str | None:
    """Return a ProxyConfig with fillers for its dangerous texts, None without a filler: the injector decodes it, whatever templates do."""
    if filler is None:
        return None
    proxy = load_yaml(text) or {}
    texts = [each for each in texts_of(proxy) if is_dangerous(each)]
    if filler.decoding:
        texts += [each for each in texts_of(proxy.get("proxyMetadata")) if is_encoded(each)]
    if not texts:
        return text
    chosen = {each: replace(filler, space=None).fill(each) for each in texts}
    return dump_json(_replaced(proxy, chosen)).decode()


def _document(params: Parameters, seen: c.Pod) -> dict[str, Any]:
    """Return the parts of the pod, ``seen``, of its workload and of its ProxyConfig resources that templates see."""
    workload = params.workload
    names = ("name", "namespace", "kind", "api_version")
    given = {
        "metadata": seen.get("metadata") or {},
        "spec": seen.get("spec") or {},
        "workload": {name: getattr(workload, name) for name in names},
    }
    if params.overlays.below or params.overlays.above:
        given[_RESOURCES] = {"below": params.overlays.below, "above": params.overlays.above}
    return given if namespaced_name(params.revision) else {**given, "owner": params.owner_meta}


def _without_unread(params: Parameters, given: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the annotations that no template reads, and without what the workload shares with the pod.

    If a template decodes texts, nothing is left out.
    """
    keys = params.revision.annotations_read
    if keys is None or decodes(params.revision):
        return given
    metadata, shortened = given["metadata"], dict(given)
    if "owner" in given:
        shortened["owner"] = {key: value for key, value in given["owner"].items() if metadata.get(key) is not value}
    for name in ("metadata", "owner"):
        annotations = shortened.get(name, {}).get("annotations")
        if annotations:
            read = {
                key: text
                for key, text in annotations.items()
                if reads(keys, key) or key == PROXY_IMAGE_TYPE or _is_proxy_config(key, text)
            }
            shortened[name] = {**shortened[name], "annotations": read}
    return shortened


def _is_proxy_config(key: str, text: str) -> bool:
    """Return whether an annotation is a ProxyConfig with a dangerous text, which templates read as a part of the mesh config."""
    return key == PROXY_CONFIG and is_dangerous(text) and _HAS_DANGEROUS_TEXT.get(text, _has_dangerous_text)


def _has_dangerous_text(yaml: str) -> bool:
    try:
        return any(map(is_dangerous, texts_of(load_yaml(yaml))))
    except DataError:
        return True


_HAS_DANGEROUS_TEXT: Final[Memo[str, bool]] = Memo(256, 256 << 10, len)


def texts_of(value: Any) -> list[str]:
    """Return all texts and keys of JSON data."""
    texts: list[str] = []
    waiting: list[Any] = [value]
    for item in waiting:
        kind = type(item)
        if kind is str:
            texts.append(item)
        elif kind is dict:
            texts += item
            waiting += item.values()
        elif kind is list:
            waiting += item
    return texts


def _dangerous_texts(params: Parameters, given: dict[str, Any]) -> list[str]:
    """Return the dangerous texts of what templates see, each once; first those that most break-outs need, lines that are not JSON."""
    read, decoding = _without_unread(params, given), decodes(params.revision)
    if not decoding and none_dangerous(read):
        return []
    texts = dict.fromkeys(texts_of(read))
    if decoding:
        found = [text for text in texts if is_encoded(text)]
    else:
        found = [text for text in texts if not _NAME.fullmatch(text) and is_dangerous(text)]
    return sorted(found, key=lambda text: is_document(text) or "\n" not in text)


def _replaced(value: Any, chosen: dict[str, str]) -> Any:
    """Return JSON data with other texts, and other keys where they are dangerous as they are."""
    if isinstance(value, str):
        return chosen.get(value, value)
    if isinstance(value, dict):
        return {_key(key, chosen): _replaced(item, chosen) for key, item in value.items()}
    return [_replaced(item, chosen) for item in value] if isinstance(value, list) else value


def _key(key: str, chosen: dict[str, str]) -> str:
    return chosen[key] if key in chosen and is_dangerous(key) else key


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where a real rendering differs from those of fillers.

    ``shape`` is whether keys, lengths or types differ, ``inserted`` whether it is a text at a place of insertion.
    """

    path: Path
    shape: bool = False
    inserted: bool = False


def mismatch(real: Any, renderings: Sequence[Any], path: Path = ()) -> Mismatch | None:
    """Return the first difference between a real rendering and those of fillers that no inserted value explains, or None.

    A single rendering has no place of insertion: the real one must equal it.
    """
    if all(each is real for each in renderings):
        return None  # equal blocks of text are read once
    if type(real) is str and renderings.count(real) == len(renderings):
        return None
    first, every = renderings[0], [real, *renderings]
    if all(isinstance(each, dict) for each in every):
        return _object_mismatch(real, renderings, path)
    if all(isinstance(each, list) for each in every):
        if any(len(each) != len(first) for each in every):
            return Mismatch(path, shape=True)
        items = (mismatch(real[n], [each[n] for each in renderings], (*path, n)) for n in range(len(first)))
        return next((found for found in items if found is not None), None)
    if any(isinstance(each, dict | list) for each in every):
        return Mismatch(path, shape=True)
    inserted = any(type(each) is not type(first) or each != first for each in renderings)
    same = has_constants(real, renderings) if inserted else type(real) is type(first) and real == first
    return None if same else Mismatch(path, inserted=inserted)


def _object_mismatch(real: dict[str, Any], renderings: Sequence[dict[str, Any]], path: Path) -> Mismatch | None:
    constant = dict.fromkeys(key for key in renderings[0] if all(key in each for each in renderings))
    for key in constant:
        if key not in real:
            return Mismatch((*path, key), shape=True)
        found = mismatch(real[key], [each[key] for each in renderings], (*path, key))
        if found is not None:
            return found
    # The other keys are inserted.
    inserted = [[key for key in each if key not in constant] for each in (real, *renderings)]
    left = inserted[0]
    if any(len(keys) != len(left) for keys in inserted):
        return Mismatch(path, shape=True)
    for keys in zip(*inserted[1:], strict=True):
        values = [each[key] for each, key in zip(renderings, keys, strict=True)]
        fitting = (
            key for key in left[:_CANDIDATES] if has_constants(key, keys) and mismatch(real[key], values) is None
        )
        found_key = next(fitting, None)
        if found_key is None:
            return Mismatch(path, inserted=True)
        left.remove(found_key)
    return None


def has_constants(real: Any, scalars: Sequence[Any]) -> bool:
    """Return whether a scalar has the texts that others have in common, in the same order: those of the template around a value."""
    text = _text(real)
    texts = [_text(each) for each in scalars]
    first = texts[0]
    if any(len(each) != len(first) for each in texts):
        prefix = _common_prefix(texts)
        suffix = _common_prefix([each[len(prefix) :][::-1] for each in texts])[::-1]
        return len(text) >= len(prefix) + len(suffix) and text.startswith(prefix) and text.endswith(suffix)
    numbers = [int.from_bytes(each) for each in texts]
    differing = reduce(or_, (numbers[0] ^ each for each in numbers)).to_bytes(len(first))
    position = 0
    for found in _EQUAL_BYTES.finditer(differing):
        part = first[found.start() : found.end()]
        if found.end() == len(first):
            return len(text) >= position + len(part) and text.endswith(part)
        place = text.find(part, position)
        if place < 0 or (found.start() == 0 and place > 0):
            return False
        position = place + len(part)
    return True


def _common_prefix(texts: Sequence[bytes]) -> bytes:
    low, high = min(texts), max(texts)
    length = next((index for index, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    return low[:length]


def _text(scalar: Any) -> bytes:
    text = scalar if isinstance(scalar, str) else json.dumps(scalar)
    return text.encode("utf-8", "surrogatepass")


def _shape(value: Any) -> Any:
    """Return data without its texts: how many keys and items there are."""
    if isinstance(value, dict):
        return [_shape(item) for item in value.values()], "object"
    return [_shape(item) for item in value] if isinstance(value, list) else value is None


def shown(path: Path) -> str:
    """Return a path up to the first key that is not a field of a pod or container, since others may have texts of the pod's values."""
    known = list(takewhile(lambda part: isinstance(part, int) or part in _fields(), path))
    return _dotted(list(dropwhile(lambda part: isinstance(part, int), known)))


@cache
def _fields() -> frozenset[str]:
    return frozenset(field.json for name in _SHOWN_TYPES for field in struct_type(name).fields if field.json)


def _place(given: dict[str, Any], text: str) -> str:
    """Return where a text is, as a value or as a key, without any text that could be of a value."""
    path = next(path for path, each in _texts_by_path(given, ()) if each == text)
    return _dotted([FILLERS[0].fill(part) if isinstance(part, str) else part for part in path])


def _dotted(path: Sequence[str | int]) -> str:
    text = ""
    for index, part in enumerate(path):
        in_brackets = isinstance(part, int) or (index > 1 and path[index - 1] in _MAPS)
        text += f"[{part}]" if in_brackets else f".{part}"
    return text.removeprefix(".")[:_MAX_SHOWN]


def _texts_by_path(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str):
                yield (*path, key), key
            yield from _texts_by_path(item, (*path, key))
