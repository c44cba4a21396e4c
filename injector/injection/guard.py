"""The guard against values of a pod that break out of a template: that change more of the overlay than the text they are inserted into.

Words:

- A *value* is a text or a key of the pod, its workload or its ProxyConfigs that a template can read. Equal texts are one value, wherever
  they are.
- A value is *dangerous* if it has syntax of YAML (``_SYNTAX``). If templates decode base64 or URLs, most values are (``is_encoded``).
- A *filler* is the value with a letter in place of each dangerous character. It cannot break out. Harmless characters stay, so that a
  template that tests the value (``contains "/"``, ``trunc 63``) mostly treats the filler like the value.

The rule:

1. A pod without a dangerous value passes.
2. The templates are rendered again with fillers in place of all dangerous values. If the text is the same, no template reads one, and
   the pod passes. Otherwise the texts are parsed, and the templates are rendered a third time with other fillers.
3. Where the two renderings of fillers differ, a value is inserted. Everywhere else the real rendering must equal them: keys, lengths of
   lists, types, scalars. At a place of insertion it may have any scalar that keeps the template's own text around the value: the text that
   the fillers have in common (``difference``).
4. Two fillers may have more in common by chance, for example in a hash. If only such a text differs, further fillers tell.
5. A template may decode JSON and insert parts of it. So if the pod does not pass and a dangerous value is JSON, steps 2 to 4 are tried once
   more with fillers that are JSON. They have line breaks and tabs between the tokens, so they cannot be mistaken for YAML.
6. Otherwise the pod is refused. To name the value, the values become real again, the most suspicious first, until one breaks out.

If the templates fail, the pod is refused by name if they do not fail with fillers, or fail elsewhere and not without the dangerous values.
If they fail with fillers at the same place, it is the template's own error, which is reported as it is.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from injector.errors import BreakOutError, DataError, TemplateRenderError
from injector.golang.json import dump_json, load_json
from injector.gotemplate.errors import ExecError
from injector.injection.data import has_only_name, template_data
from injector.injection.result import ENFORCE, OFF
from injector.istio.annotations import PROXY_CONFIG
from injector.istio.proto import proxy_config_type, with_numbers
from injector.kube.typed import dotted_path, struct_type
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from injector.injection import containers as c
    from injector.injection.data import Parameters
    from injector.istio.revision import Revision
    from injector.istio.template import TemplateData

# YAML 1.2, chapters 5.2 to 5.4 and 7.3.3. Each run of spaces is looked at once, from its beginning.
_SYNTAX: Final = re.compile(
    r"""
      \A (?: [#&!|>%@`,] | \*(?!\Z) )  # comment, anchor, tag, block scalar, directive, reserved, separator, alias
    | \A (?: -(?=\s|\Z) | --- | \.\.\. | <<\Z )  # an item, the ends of documents, the merge key
    # The characters with which the rest begins: the others, which are most, are looked at no further.
    | (?= [\s\x00-\x1f\x7f-\x9f\ufeff\ufffe\uffff\ud800-\udfff"'\\{}\[\]:?] ) (?:
        (?<!\s)\s* [\r\n\x85\u2028\u2029] \s*  # a line break, which YAML folds with the spaces around it
      | [\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]  # text that is not printable
      | ["'\\{}\[\]]                            # quotes, the escape in double quotes, flow collections
      | : (?=[\s,\[\]{}]|\Z)                    # the end of a key; at the end of the value, the text of the template decides
      | (?<!\s)\s+ (?: [#] | \Z ) | \A\s+       # a comment; spaces that are lost
      | (?<![^,]) \?                            # a key, in flow collections also without a space
      )
    """,
    re.VERBOSE,
)
_WORDS: Final = re.compile(r"-{0,2}[A-Za-z0-9_/][A-Za-z0-9_./$+=()-]*+(?:[ :,][A-Za-z0-9_./$+=()-]++)*")
"""Most texts of a pod: words between single spaces, colons and commas. They are never dangerous."""
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_./:$+=()-]")
_AT_AN_END: Final = (":/", "/-", "/...")
"""Syntax at the end or the beginning of a text without ``_NO_NAME``, seen where texts are joined by slashes."""

DECODERS: Final = frozenset({"b32dec", "b64dec", "decryptAES", "urlParse"})
"""Functions that turn a text that looks harmless into a dangerous one. (JSON has quotes, so it looks dangerous.)"""
_WORD: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label, such as the names of workloads, containers and namespaces."""
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}|%[0-9A-Fa-f]{2}")
_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+|[\[\]{}:,]', re.DOTALL)
_GROUP: Final = 4  # characters of base64 for three bytes
_UNIFORM: Final = "VVVV"
"""Base64 of ``UUU``, and of that letter wherever decoding begins."""


def is_dangerous(text: str) -> bool:
    """Return whether a text could end the scalar that it is inserted into, or begin another one."""
    return _SYNTAX.search(text) is not None


def is_encoded(text: str) -> bool:
    """Return whether a text is dangerous, or may be dangerous once decoded, as any text but a plain name may."""
    if is_dangerous(text):
        return True
    if _WORD.fullmatch(text):
        return is_dangerous(_decode(text) or "")
    return _ENCODED.search(text) is not None


def _decode(text: str) -> str | None:
    if len(text) % _GROUP:
        return None
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


def decodes(revision: Revision) -> bool:
    """Return whether a template of a revision calls one of ``DECODERS``."""
    return not DECODERS.isdisjoint(revision.functions_called)


def is_document(text: str) -> bool:
    """Return whether a text is JSON that a template may decode, other than a number or word."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        load_json(text)
    except DataError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Filler:
    """Makes a text inert: ``letter`` replaces each dangerous character, or if ``whole`` every character.

    If ``in_json``, JSON stays JSON with ``space`` between its tokens, and only the dangerous texts in it become inert. If ``decoding``,
    the templates call one of ``DECODERS``, and ``base64`` replaces groups of base64.
    """

    letter: str
    base64: str = _UNIFORM
    space: str = ""
    whole: bool = False
    in_json: bool = False
    decoding: bool = False

    def fill(self, text: str) -> str:
        """Return the text to insert in place of ``text``."""
        if not self.in_json or not is_document(text):
            return self._inert(text)
        return self.space + _JSON_TOKEN.sub(self._token, text) + self.space

    def _token(self, match: re.Match[str]) -> str:
        token = match[0]
        if token.isspace():
            return ""
        if not token.startswith('"'):
            return self.space + token + self.space
        text = load_json(token)
        return dump_json(self._inert(text)).decode() if is_dangerous(text) else token

    def _inert(self, text: str) -> str:
        if self.whole:
            return self.letter * len(text)
        while is_dangerous(text):
            text = _SYNTAX.sub(lambda match: self.letter * len(match[0]), text)
        if self.decoding and not _WORD.fullmatch(text):
            text = _ENCODED.sub(self._inert_when_decoded, text)
        return text

    def _inert_when_decoded(self, match: re.Match[str]) -> str:
        """Return inert base64. In a text that is not base64, more likely a path or an image, the slashes stay."""
        text, is_base64 = match[0], _decode(match[0]) is not None
        return "".join("/" if char == "/" and not is_base64 else self.base64[n % _GROUP] for n, char in enumerate(text))


FILLERS: Final = (Filler("x"), Filler("7", base64="Nzc3", space="\n\t"))
"""The two that are compared. They sort differently among keys. The letters differ in the two, four or six bits that they share with a
character of base64, which therefore differs too."""
MORE_FILLERS: Final = (Filler("J"), Filler("k", whole=True), Filler("W", whole=True), Filler("3", whole=True))
"""Tell what the first two have in common by chance: in a hash, or in a part of the value that the template changes."""

Path = tuple[str | int, ...]

_MAPS: Final = ("annotations", "labels")
# Each probe halves the values that a refusal may mean. A pod with more texts takes long to render: it gets one probe.
_PROBES: Final = 10
_LARGE: Final = 4_000
# Characters of a place in a message: keys can be as long as a pod.
_MAX_SHOWN: Final = 200
# Keys to try for one that is inserted: sorted maps move few keys, and trying all would take a square of their number.
_NEAREST_KEYS: Final = 8
_SHOWN_TYPES: Final = ("v1.Pod", "v1.PodSpec", "v1.ObjectMeta", "v1.Container")
_HINT: Final = "take quotes, line breaks and other syntax of YAML out of it"
_BRANCH_HINT: Final = f"{_HINT}; if the template is meant to decide by them, run the guard with `warn`"


class PodTemplates(Protocol):
    """The templates of one pod, and what becomes of their texts."""

    def render(self, data: TemplateData) -> list[str]:
        """Render the templates for template data."""

    def read(self, texts: list[str]) -> Any:
        """Parse rendered texts."""

    def trees(self, rendered: Any) -> Any:
        """Return the JSON data of what ``read`` returned, which is compared."""

    def merge(self, rendered: Any) -> Any:
        """Make the result of what ``read`` returned."""


class GuardComparison(NamedTuple):
    """Renderings of fillers, and how the real one differs from them; ``difference`` is None if the templates fail with a filler."""

    filler: Filler
    renderings: list[Any]
    difference: Difference | None = None


class TemplateGuard:
    """Compares what templates rendered for a pod with renderings of fillers, and finds the value to name.

    ``visible_pod`` is the pod as templates see it.
    """

    def __init__(self, params: Parameters, visible_pod: c.Pod, templates: PodTemplates) -> None:
        self._params = params
        self._pod = visible_pod
        self._templates = templates
        self._decoding = decodes(params.revision)
        self._document = _readable_parts(params, visible_pod)
        self._values = [] if params.guard == OFF else _dangerous_values(self._document, decoding=self._decoding)

    def check(self, texts: list[str], rendered: Any) -> tuple[str, ...]:
        """Return the findings of a guard that only warns about rendered texts. Raises BreakOutError if the guard enforces.

        ``rendered`` is what the templates read from the texts.
        """
        error = self._finding(texts, self._templates.trees(rendered)) if self._values else None
        if error is not None and self._params.guard == ENFORCE:
            raise error
        return () if error is None else (str(error),)

    def check_failure(self, cause: DataError) -> None:
        """Check why the templates, or merging what they rendered, failed.

        Raises BreakOutError if a dangerous value is the reason, and the guard enforces.
        """
        if not self._values or self._params.guard != ENFORCE:
            return
        fillers: list[Filler | None] = [FILLERS[0]]
        if any(map(is_document, self._values)):
            fillers.append(replace(FILLERS[0], in_json=True))
        for filler in (*fillers, None):
            failure = self._failure(self._values, filler)
            if failure is None:
                what = "the value makes the template fail, or render what is not YAML"
                where = self._blame(partial(self._fails, filler))
                raise BreakOutError(what, where=where, hint=_HINT) from cause
            if failure == _kind_of(cause):
                return

    def _fails(self, filler: Filler | None, values: Sequence[str]) -> bool:
        return self._failure(values, filler) is not None

    def _failure(self, values: Sequence[str], filler: Filler | None) -> tuple[object, ...] | None:
        """Return how the templates, or the merge, fail with fillers in place of ``values``, or without them; None if they do not."""
        try:
            self._templates.merge(self._templates.read(self._templates.render(self._data(values, filler))))
        except DataError as error:
            # Not the error, whose traceback refers to the frames of the callers: if these kept it, the pod would stay in memory.
            return _kind_of(error)
        return None

    def _finding(self, texts: list[str], real: Any) -> BreakOutError | None:
        """Return the error for a real rendering; None if no value breaks out."""
        comparison = self._comparison(texts, real, in_json=False)
        if comparison is not None and any(map(is_document, self._values)):
            with_json = self._comparison(texts, real, in_json=True)
            if with_json is None or with_json.difference is not None:
                comparison = with_json
        return None if comparison is None else self._error(comparison)

    def _comparison(self, texts: list[str], real: Any, *, in_json: bool) -> GuardComparison | None:
        """Compare a real rendering, its texts and their trees, with fillers. Return None if no value breaks out."""
        adapt = partial(replace, in_json=in_json, decoding=self._decoding)
        first_filler = adapt(FILLERS[0])
        first_texts = self._texts(self._values, first_filler)
        if first_texts == texts and not in_json and not self._decoding:
            return None
        first = self._parse(first_texts)
        second = None if first is None else self._rendering(self._values, adapt(FILLERS[1]))
        if second is None:
            return GuardComparison(first_filler, [])
        renderings = [first, second]
        first_difference = difference(real, renderings)
        for filler in MORE_FILLERS:
            if first_difference is None or not first_difference.inserted:
                break
            rendering = self._rendering(self._values, adapt(filler))
            narrower = None if rendering is None else difference(real, [*renderings, rendering])
            if rendering is not None and (narrower is None or narrower.inserted):
                first_difference, renderings = narrower, [*renderings, rendering]
        return None if first_difference is None else GuardComparison(first_filler, renderings, first_difference)

    def _rendering(self, values: Sequence[str], filler: Filler) -> Any:
        """Render the templates with fillers in place of ``values``, and parse the texts; None if one fails."""
        return self._parse(self._texts(values, filler))

    def _texts(self, values: Sequence[str], filler: Filler) -> list[str] | None:
        try:
            return self._templates.render(self._data(values, filler))
        except DataError:
            return None

    def _parse(self, texts: list[str] | None) -> Any:
        try:
            return None if texts is None else self._templates.trees(self._templates.read(texts))
        except DataError:
            return None

    def _error(self, comparison: GuardComparison) -> BreakOutError:
        filler, renderings, first_difference = comparison

        def breaks_out(values: Sequence[str]) -> bool:
            rendering = self._rendering(values, filler)
            if first_difference is None:
                return rendering is not None
            return rendering is None or difference(rendering, renderings) is not None

        if first_difference is None:
            what = "the value cannot be checked: the template fails without its special characters"
        else:
            what = f"the value breaks out of the template: it changes {format_path(first_difference.path) or 'more than its own text'}"
        return BreakOutError(what, where=self._blame(breaks_out), hint=_BRANCH_HINT)

    def _blame(self, breaks_out: Callable[[Sequence[str]], bool]) -> str:
        """Return where the value is that breaks out.

        ``breaks_out`` tells whether a value does if only ``values`` are replaced. None does if all are, and one does if none are.
        """
        probes = _PROBES if len(texts_of(self._document)) <= _LARGE else 1
        harmless, real, middle = 0, len(self._values), 1
        while real - harmless > 1 and probes:
            probes -= 1
            if breaks_out(self._values[middle:]):
                real = middle
            else:
                harmless = middle
            middle = (harmless + real) // 2
        others = real - harmless - 1
        return _place(self._document, self._values[harmless]) + (f", or one of {others} other values" if others else "")

    def _data(self, values: Sequence[str], filler: Filler | None) -> TemplateData:
        """Return template data with fillers in place of values; if ``filler`` is None, without the annotations and labels that have them.

        Raises DataError if with them the annotation ``proxy.istio.io/config`` is not a ProxyConfig.
        """
        inert = {value: (filler or FILLERS[0]).fill(value) for value in values}
        document = _replace(self._document if filler else _without(self._document, inert.keys()), inert)
        params, overlaid = self._params, self._params.proxy_config
        configs = document["proxyConfigs"]
        if configs != self._document["proxyConfigs"]:
            annotation = None if configs["annotation"] is None else dump_json(configs["annotation"]).decode()
            overlaid = params.overlays._replace(**{**configs, "annotation": annotation}).on(params.revision)
        changed = params._replace(
            workload=replace(params.workload, **document["workload"]),
            owner_meta=document.get("owner", params.owner_meta),
            proxy_config=overlaid,
            mesh_in_data=overlaid if params.mesh_in_data is params.proxy_config else params.mesh_in_data,
        )
        return template_data(changed, {**self._pod, "metadata": document["metadata"], "spec": document["spec"]})


def _kind_of(failure: DataError) -> tuple[object, ...]:
    """Return what failures at the same place of a template have in common, or those with the same error in what was rendered."""
    if isinstance(failure, ExecError):
        return type(failure), failure.where, failure.template, failure.line, failure.column
    if isinstance(failure, TemplateRenderError):
        return type(failure), failure.where
    return type(failure), failure.where, failure.what


def _readable_parts(params: Parameters, visible_pod: c.Pod) -> dict[str, Any]:
    """Return the parts of the pod, ``visible_pod``, of its workload and of its ProxyConfigs that templates can read, by their place."""
    revision, workload, overlays = params.revision, params.workload, params.overlays
    names = ("name", "namespace", "kind", "api_version")
    # The injector decodes this one, whatever templates do. A number that is written as a text cannot break out of anything.
    annotation = load_yaml(overlays.annotation) if overlays.annotation else None
    annotation = with_numbers(proxy_config_type(revision.minor), annotation)
    document = {
        "metadata": visible_pod.get("metadata") or {},
        "spec": visible_pod.get("spec") or {},
        "workload": {name: getattr(workload, name) for name in names},
        "proxyConfigs": {"below": overlays.below, "annotation": annotation, "above": overlays.above},
    }
    if not has_only_name(revision):
        document["owner"] = params.owner_meta
    return document


def texts_of(value: Any) -> list[str]:
    """Return all texts and keys of JSON data."""
    texts: list[str] = []
    waiting: list[Any] = [value]
    for item in waiting:
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            texts += item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return texts


def dangerous_texts(texts: list[str]) -> list[str]:
    """Return the texts that are dangerous, each once. One search tells of most pods that they have none."""
    joined = "/".join(("", *texts, ""))
    if _NO_NAME.search(joined) is None and not any(syntax in joined for syntax in _AT_AN_END):
        return []
    return [text for text in dict.fromkeys(texts) if not _WORDS.fullmatch(text) and is_dangerous(text)]


def _dangerous_values(document: dict[str, Any], *, decoding: bool) -> list[str]:
    """Return the dangerous values, each once; first those that most break-outs need, lines that are not JSON."""
    values = dangerous_texts(texts_of(document))
    if decoding:
        # Templates decode no other fields of this ProxyConfig, and enumerations must stay.
        configs = document["proxyConfigs"]
        free = {**configs, "annotation": (configs["annotation"] or {}).get("proxyMetadata")}
        encoded = filter(is_encoded, texts_of({**document, "proxyConfigs": free}))
        values = list(dict.fromkeys([*values, *encoded]))
    return sorted(values, key=lambda text: is_document(text) or "\n" not in text)


def _replace(value: Any, inert: dict[str, str]) -> Any:
    """Return JSON data with other texts, and other keys where they are dangerous as they are."""
    if isinstance(value, str):
        return inert.get(value, value)
    if isinstance(value, dict):
        return {inert[k] if k in inert and is_dangerous(k) else k: _replace(v, inert) for k, v in value.items()}
    return [_replace(item, inert) for item in value] if isinstance(value, list) else value


def _without(document: dict[str, Any], values: Any) -> dict[str, Any]:
    """Return the document without the annotations and labels that have one of ``values``."""
    shorter = dict(document)
    for kind in ("metadata", "owner"):
        for name in _MAPS:
            entries = shorter.get(kind, {}).get(name)
            if entries:
                constant = {key: text for key, text in entries.items() if text not in values and key not in values}
                shorter[kind] = {**shorter[kind], name: constant}
    return shorter


class Difference(NamedTuple):
    """Where a real rendering differs from those of fillers; ``inserted`` is whether that is only in the text of a place of insertion."""

    path: Path
    inserted: bool = False


def difference(real: Any, renderings: Sequence[Any], path: Path = ()) -> Difference | None:
    """Return the first difference between a real rendering and those of fillers that no inserted value explains, or None."""
    if all(type(rendering) is type(real) for rendering in renderings):
        if isinstance(real, dict):
            return _object_difference(real, renderings, path)
        if isinstance(real, list):
            if any(len(rendering) != len(real) for rendering in renderings):
                return Difference(path)
            items = (difference(one, others, (*path, n)) for n, (one, *others) in enumerate(zip(real, *renderings)))  # noqa: B905
            return next((item for item in items if item is not None), None)
        if all(rendering == real for rendering in renderings):
            return None
    if any(isinstance(value, dict | list) for value in (real, *renderings)):
        return Difference(path)
    first = renderings[0]
    if all(type(rendering) is type(first) and rendering == first for rendering in renderings):
        return Difference(path)  # the template's own, which the real rendering does not have
    return None if has_constants(real, renderings) else Difference(path, inserted=True)


def _object_difference(real: dict[str, Any], renderings: Sequence[dict[str, Any]], path: Path) -> Difference | None:
    constant = dict.fromkeys(key for key in renderings[0] if all(key in rendering for rendering in renderings))
    for key in constant:
        if key not in real:
            return Difference((*path, key))
        inner = difference(real[key], [rendering[key] for rendering in renderings], (*path, key))
        if inner is not None:
            return inner
    # The other keys are inserted. They may be in another order: look for each real one among the next few.
    remaining, *inserted = ([key for key in tree if key not in constant] for tree in (real, *renderings))
    if any(len(keys) != len(remaining) for keys in inserted):
        return Difference(path)
    for keys in zip(*inserted, strict=True):
        values = [rendering[key] for rendering, key in zip(renderings, keys, strict=True)]
        fitting = (
            k for k in remaining[:_NEAREST_KEYS] if has_constants(k, keys) and difference(real[k], values) is None
        )
        fit = next(fitting, None)
        if fit is None:
            return Difference(path, inserted=True)
        remaining.remove(fit)
    return None


def has_constants(real: Any, scalars: Sequence[Any]) -> bool:
    """Return whether a scalar has the texts that others have in common, in the same order: those of the template around a value."""
    text, texts = _text(real), [_text(scalar) for scalar in scalars]
    start, *between, end = _common_parts(texts)
    if len(text) < len(start) + len(end) or not (text.startswith(start) and text.endswith(end)):
        return False
    position = len(start)
    for part in between:
        start_of_part = text.find(part, position)
        if start_of_part < 0:
            return False
        position = start_of_part + len(part)
    return position <= len(text) - len(end)


def _common_parts(texts: Sequence[str]) -> list[str]:
    """Return the parts that texts share: the beginning, those between the differences, and the end. Each may be empty."""
    start = _common_start(texts)
    if len({len(text) for text in texts}) > 1:
        return [start, _common_start([text[len(start) :][::-1] for text in texts])[::-1]]
    gap = "\0"
    same = "".join(chars[0] if len(set(chars)) == 1 else gap for chars in zip(*texts, strict=True))
    return [*re.split(f"{gap}+", same), *([] if gap in same else [""])]


def _common_start(texts: Sequence[str]) -> str:
    pairs = takewhile(lambda chars: len(set(chars)) == 1, zip(*texts, strict=False))
    return "".join(chars[0] for chars in pairs)


def _text(scalar: Any) -> str:
    return scalar if isinstance(scalar, str) else dump_json(scalar).decode()


def format_path(path: Path) -> str:
    """Return a path up to the first key that is not a field of a pod or container, since others may have texts of the pod's values."""
    known = takewhile(lambda part: isinstance(part, int) or part in _fields(), path)
    return dotted_path(list(dropwhile(lambda part: isinstance(part, int), known)))


@cache
def _fields() -> frozenset[str]:
    return frozenset(field.json for name in _SHOWN_TYPES for field in struct_type(name).fields if field.json)


def _place(document: dict[str, Any], value: str) -> str:
    """Return where a value is, as a text or as a key, without any text that could be of a value."""
    path = next(path for path, text in _texts_by_path(document, ()) if text == value)
    if path[:2] == ("proxyConfigs", "annotation"):
        path = ("metadata", "annotations", PROXY_CONFIG, *path[2:])
    return dotted_path([FILLERS[0].fill(part) if isinstance(part, str) else part for part in path])[:_MAX_SHOWN]


def _texts_by_path(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str):
                yield (*path, key), key
            yield from _texts_by_path(item, (*path, key))
