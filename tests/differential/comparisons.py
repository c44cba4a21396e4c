"""What is compared with Go: for each kind of input who makes it, what we make of it, and what may differ, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any

from injector.errors import DataError, ManifestError
from injector.golang.json import go_json
from injector.gotemplate import Func, TemplateError, compile_template
from injector.gotemplate.sprig import txt_func_map
from injector.istio.behaviours import NEWEST
from injector.istio.functions import istio_functions
from injector.istio.proto import Message, message_type, parse_message
from injector.kube.strategicpatch import strategic_merge
from injector.kube.yaml import load_yaml
from tests.differential.datetexts import Dates
from tests.differential.dice import Dice
from tests.differential.golang import Answer, Question
from tests.differential.merges import Pairs
from tests.differential.proxyconfigs import MeshConfigs, ProxyConfigs
from tests.differential.templatetexts import Printfs, Templates
from tests.differential.yamltexts import Texts
from tests.gotemplate.recorded import TIMELESS, floats

REFUSED = "refused"
# What libyaml, by which PyYAML reads, and go-yaml's port of an older one take differently. No program writes such texts.
SHAPES = (
    ("\\/ in double quotes is JSON's, and read", re.compile(r"\\/")),
    ("libyaml takes a ? within a plain scalar between brackets", re.compile(r"[\[{].*\?", re.DOTALL)),
    ("libyaml ends a tag before a comma or a bracket", re.compile(r"![^\s]*[,\[\]{}]")),
    ("libyaml ends a plain scalar between brackets before a colon that ends with them", re.compile(r":[,\[\]{}]")),
    ("libyaml skips a byte order mark that is not the first character", re.compile(".\ufeff", re.DOTALL)),
)
VARIES = "varies"


@dataclass(frozen=True)
class Excuse:
    """A difference that stays: which inputs it is about, and why."""

    reason: str
    fits: Callable[[Question], bool]


@dataclass(frozen=True)
class Comparison:
    """One kind of input: Go's name for it, its maker, our answer, and the differences that stay.

    ``words`` says whether the text of an error is compared too, not only that there is one. ``runs`` is how often Go is asked again, where
    it walks maps in random order. ``unescaped``: Go writes bytes that are no text as an escape, which is taken for the character.
    """

    name: str
    kind: str
    maker: Callable[[Dice], Any]
    ours: Callable[[Question], str]
    excuses: tuple[Excuse, ...] = ()
    words: bool = False
    runs: int = 0
    unescaped: bool = False

    def questions(self, seed: str, count: int) -> list[Question]:
        """The inputs of a seed."""
        return list(islice(self._questions(seed), count))

    def _questions(self, seed: str) -> Iterator[Question]:
        maker = self.maker(Dice(f"{self.name} {seed}"))
        while True:
            yield maker.question()

    def gos(self, answer: Answer) -> str:
        """Go's answer as a text: what it made, that or why it refused, or that it answers otherwise from run to run."""
        if answer.get("varies"):
            return VARIES
        if "error" in answer:
            return answer["error"] if self.words else REFUSED
        result = str(answer.get("result", ""))
        return result.replace("\\ufffd", "\ufffd") if self.unescaped else result

    def excused(self, question: Question) -> str:
        """Why our answer may differ; empty where it may not."""
        return next((excuse.reason for excuse in self.excuses if excuse.fits(question)), "")


def merged(question: Question) -> str:
    """Our strategic merge, its numbers as Go's: float64."""
    try:
        result = strategic_merge(question["original"], question["patch"], question["type"])
    except ManifestError:
        return REFUSED
    return go_json(floats(result), sort_keys=True)


def read(question: Question) -> str:
    """What we read of a YAML text, as Go prints JSON."""
    try:
        return go_json(load_yaml(question["text"]), sort_keys=True).replace("\\ufffd", "\ufffd")
    except ManifestError:
        return REFUSED


@cache
def functions() -> dict[str, Func]:
    """Sprig's functions, and Istio's toYaml."""
    return {**txt_func_map(), "toYaml": istio_functions(NEWEST, {})["toYaml"]}


def rendered(question: Question) -> str:
    """What we render of a template, or the error in Go's words."""
    try:
        text = compile_template("t", question["text"], funcs=functions()).execute(
            floats(question["data"]), budget=TIMELESS
        )
    except TemplateError as error:
        return str(error)
    # Go's JSON writes each byte that is no text as U+FFFD.
    whole = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return re.sub("[\ud800-\udfff]", "\ufffd", whole)


def configured(type_name: str, question: Question) -> str:
    """A ProxyConfig or mesh config on top of another, as JSON."""
    config = Message(message_type(type_name), {})
    try:
        for text in (question["base"], question["text"]):
            data = load_yaml(text)
            config = parse_message(type_name, {} if data is None else data, base=config.values)
    except DataError:
        return REFUSED
    return config.go_string()


def written(shape: re.Pattern[str], question: Question) -> bool:
    """Whether a text has something of a shape."""
    return shape.search(question["text"]) is not None


def doubled(value: Any) -> bool:
    """Whether a list in an object has a scalar twice."""
    if isinstance(value, dict):
        return any(map(doubled, value.values()))
    if not isinstance(value, list):
        return False
    scalars = [repr(item) for item in value if not isinstance(item, dict | list)]
    return len(scalars) != len(set(scalars)) or any(map(doubled, value))


def reordered(value: Any) -> bool:
    """Whether a patch orders a list from which it deletes."""
    if isinstance(value, list):
        return any(map(reordered, value))
    if not isinstance(value, dict):
        return False
    for key in value:
        name = key.removeprefix("$setElementOrder/")
        items = value.get(name)
        deletes = isinstance(items, list) and any(isinstance(item, dict) and "$patch" in item for item in items)
        if name != key and (deletes or f"$deleteFromPrimitiveList/{name}" in value):
            return True
    return any(map(reordered, value.values()))


SCANNERS = tuple(Excuse(reason, partial(written, shape)) for reason, shape in SHAPES)
DOUBLED = Excuse(
    "Go reads the order of a list of texts from a list that it has overwritten, where one stands in it twice",
    lambda question: doubled(question["original"]),
)
REORDERED = Excuse(
    "Go reads the order of a list from one that it has overwritten, where a patch orders what it deletes from",
    lambda question: reordered(question["patch"]),
)
COPIED_VERSION = Excuse(
    "sprig's deepCopy of a version forgets it",
    lambda question: {"semver", "eepCopy"} <= set(re.split(r"\W|[dD](?=eep)", question["text"])),
)
CAPACITY = Excuse(
    "Go cuts a list up to what there is room for behind it",
    lambda question: re.search("[sS]lice ", question["text"]) is not None,
)
UNSUPPORTED_DATE = Excuse(
    "dates outside Python's years, fractions of a microsecond, and some parts of layouts are not supported",
    lambda question: "supported" in rendered(question),
)
WRONG_OFFSET = Excuse(
    "an offset is both out of range and not an offset, and Go reports the range",
    lambda question: re.search(r"cannot parse .* as \"[-Z]07", rendered(question)) is not None,
)
COMPARISONS = {
    comparison.name: comparison
    for comparison in (
        Comparison("merge", "merge", Pairs, merged, (DOUBLED, REORDERED), runs=5),
        Comparison("yaml", "yaml", Texts, read, SCANNERS, runs=2, unescaped=True),
        Comparison("sprig", "template", Templates, rendered, (COPIED_VERSION, CAPACITY), words=True),
        Comparison("printf", "template", Printfs, rendered, words=True),
        Comparison("dates", "template", Dates, rendered, (UNSUPPORTED_DATE, WRONG_OFFSET), words=True),
        *(
            Comparison(name, name, maker, partial(configured, maker.kind))
            for name, maker in (("proxyconfig", ProxyConfigs), ("meshconfig", MeshConfigs))
        ),
    )
}
