"""What is compared with Go: for each kind of input who makes it, what we make of it, and what may differ, with the reason."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from injector.errors import DataError, ManifestError
from injector.gotemplate import TemplateError, compile_template
from injector.gotemplate.sprig import txt_func_map
from injector.istio.functions import istio_functions
from injector.istio.meshconfig import read_proxy_config
from injector.istio.minor import NEWEST
from injector.istio.proto import Message, to_json
from injector.istio.protoschema import PROXY_CONFIG, message_type
from injector.kube.gojson import go_json
from injector.kube.strategicpatch import strategic_merge
from injector.kube.yamlread import load_yaml
from tests.differential.dice import Dice
from tests.differential.merges import Pairs
from tests.differential.proxyconfigs import ProxyConfigs
from tests.differential.templatetexts import Printfs, Templates
from tests.differential.yamltexts import Texts
from tests.gotemplate.recorded import TIMELESS, floats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from injector.gotemplate import Func
    from tests.differential.golang import Answer, Question

REFUSED = "refused"
VARIES = "varies"


@dataclass(frozen=True)
class Excuse:
    """A difference that stays: which inputs it is about, and why."""

    reason: str
    fits: Callable[[Question], bool]


@dataclass(frozen=True)
class Comparison:
    """One kind of input: Go's name for it, its maker, our answer, and the differences that stay.

    ``words`` says whether the text of an error is compared too, not only that there is one.
    """

    name: str
    kind: str
    maker: Callable[[Dice], Any]
    ours: Callable[[Question], str]
    excuses: tuple[Excuse, ...] = ()
    words: bool = False
    runs: int = 0

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
        return str(answer.get("result", ""))

    def excused(self, question: Question) -> str:
        """Why our answer may differ; empty where it may not."""
        return next((each.reason for each in self.excuses if each.fits(question)), "")


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
        return go_json(load_yaml(question["text"]), sort_keys=True)
    except ManifestError:
        return REFUSED


@cache
def functions() -> dict[str, Func]:
    """Sprig's functions, and Istio's toYaml."""
    return {**txt_func_map(), "toYaml": istio_functions(NEWEST, {})["toYaml"]}


def rendered(question: Question) -> str:
    """What we render of a template, or the error in Go's words."""
    try:
        text = compile_template("t", question["text"], funcs=functions()).execute(floats(question["data"]), budget=TIMELESS)
    except TemplateError as error:
        return str(error)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def configured(question: Question) -> str:
    """A ProxyConfig on top of another, as JSON."""
    fields: dict[str, Any] = {}
    try:
        for text in (question["base"], question["text"]):
            data = load_yaml(text)
            fields = read_proxy_config({} if data is None else data, NEWEST, base=fields)
    except DataError:
        return REFUSED
    return to_json(Message(message_type(PROXY_CONFIG), fields))


COMPARISONS = {
    each.name: each
    for each in (
        Comparison("merge", "merge", Pairs, merged, runs=5),
        Comparison("yaml", "yaml", Texts, read),
        Comparison("sprig", "template", Templates, rendered, words=True),
        Comparison("printf", "template", Printfs, rendered, words=True),
        Comparison("proxyconfig", "proxyconfig", ProxyConfigs, configured),
    )
}
