"""No value of a pod breaks out of a template: whatever it holds and wherever, the pod gains no container, volume, right or host path.

``GUARD_VALUES`` is how many hostile values each revision is tried with; with more than a sample, every revision of the corpus is.
``GUARD_PODS`` is how many realistic pods, of which none may be refused. ``scripts/reliability guard`` measures what the guard costs.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from injector.errors import BreakOutError, DataError
from injector.injection import guard
from injector.injection.data import Parameters, template_data
from injector.injection.pipeline import admitted_pod, inject_pod, render_guarded, webhook_parameters
from injector.injection.render import OverlayTemplates
from injector.injection.result import ENFORCE, OFF, WARN, Injected, RequestFacts, Skipped
from injector.istio.revision import Revision
from injector.istio.template import TemplateData
from injector.kube.overlay import Overlay
from tests import controlplanes
from tests.conformance import corpus
from tests.factories import make_pod
from tests.property import breakouts, realistic
from tests.property.breakouts import DECODED, EVIL, LABELS, PASTED
from tests.property.mutations import Path, values_in
from tests.property.subjects import replica
from tests.revisions.fakes import embedded, revision_of
from tests.sizes import sized

SAMPLE = sized(10, 25)
PODS = sized(24, 40, "GUARD_PODS")
VALUES = sized(10, 25, "GUARD_VALUES")
MERGED = ("1.10", "1.12", "1.14", "1.17", "1.20", "1.24", "1.28", "1.30")
"""Minors that merge overlays into the pod."""
NAMED_AT_LEAST = 0.99
LOG_LEVEL = "sidecar.istio.io/logLevel"


def tried_revisions() -> list[Revision]:
    """The revisions that are tried: one of each control plane, or all of them."""
    if VALUES <= SAMPLE:
        return [controlplanes.revision_of(name) for name in controlplanes.names()]
    return [revision for name in controlplanes.all_names() for revision, _ in controlplanes.subjects(name)]


def subject(dice: random.Random) -> dict[str, Any]:
    """A pod with some of the labels and annotations that templates read."""
    pod = replica("shop")
    for key, table in (("labels", LABELS), ("annotations", {**PASTED, **DECODED})):
        pod["metadata"][key] |= {name: text for name, text in table.items() if dice.random() < 0.5}
    return pod


def injected(revision: Revision, pod: dict[str, Any], guard: str | None = None) -> Injected | Skipped | DataError:
    """What comes of a pod, refusals included."""
    facts = RequestFacts("shop", guard=guard or ENFORCE, deny_invalid=False)
    try:
        return inject_pod(revision, pod, facts)
    except DataError as error:
        return error


def gained(
    revision: Revision, hostile: dict[str, Any], clean: list[dict[str, Any]], guard: str | None = None
) -> Counter[tuple[str, ...]]:
    """What a hostile pod has beside what clean ones like it have."""
    result = injected(revision, hostile, guard)
    if not isinstance(result, Injected):
        return breakouts.rights({"spec": {}})
    allowed = breakouts.rights(hostile)
    for pod in clean:
        other = injected(revision, pod)
        if isinstance(other, Injected):
            allowed |= breakouts.rights(other.pod)
    return breakouts.rights(result.pod) - allowed


def tried(revision: Revision, dice: random.Random) -> tuple[int, int]:
    """Try hostile values on a revision, and return how many were refused, and how many refusals name the place."""
    refused = named = 0
    for _ in range(VALUES):
        pod = subject(dice)
        place = dice.choice([place for place in breakouts.places(pod) if "metadata" in place or dice.random() < 0.3])
        as_key = place[1] in ("labels", "annotations") and dice.random() < 0.1
        text = breakouts.value(dice)
        hostile = breakouts.put(pod, place, text, as_key=as_key)
        plain = pod if place[-1] in DECODED and not as_key else breakouts.put(pod, place, "x", as_key=as_key)
        assert not gained(revision, hostile, [pod, plain]), json.dumps([place, text])
        result = injected(revision, hostile)
        if isinstance(result, DataError):
            refused += 1
            named += as_key or str(place[-1]) in str(result)
    return refused, named


def test_no_value_adds_anything_to_a_pod_and_refusals_say_where_it_is() -> None:
    dice = random.Random(f"guard {VALUES}")  # noqa: S311 -- nothing secret
    counts = [tried(tried_revision, dice) for tried_revision in tried_revisions()]
    refused, named = (sum(column) for column in zip(*counts, strict=True))

    assert refused > VALUES, "else the guard was not put to the test"
    assert named >= NAMED_AT_LEAST * refused


@pytest.mark.parametrize("name", ["stable", "canary"])
def test_no_value_adds_anything_to_a_pod_of_the_embedded_revisions(name: str) -> None:
    refused, named = tried(embedded(name), random.Random(f"{name} {VALUES}"))  # noqa: S311 -- nothing secret

    assert named >= NAMED_AT_LEAST * refused


@pytest.mark.parametrize("name", controlplanes.parameters(MERGED))
def test_what_breaks_out_without_the_guard_is_refused_with_it(name: str) -> None:
    revision = controlplanes.revision_of(name)
    plain = breakouts.put(replica("shop"), ("metadata", "annotations", LOG_LEVEL), "x")
    hostile = [
        breakouts.put(plain, ("metadata", "annotations", LOG_LEVEL), breakouts.aimed(indent)) for indent in range(9)
    ]

    breaking = [pod for pod in hostile if gained(revision, pod, [plain], OFF)]
    refusals = [injected(revision, pod) for pod in breaking]
    warned = [injected(revision, pod, WARN) for pod in breaking]

    assert breaking, "else nothing was refused"
    assert all(isinstance(refusal, BreakOutError) and LOG_LEVEL in refusal.where for refusal in refusals)
    assert all(isinstance(result, Injected) and LOG_LEVEL in result.findings[0] for result in warned)


REGISTRY = "registry.example.com/proxy"
LOOKALIKES = ("registry-example.com/proxy", "registry.example.comx/proxy", "registry.example.com\\\\x2f/proxy", EVIL)
EXCUSES = (" istio", " proxyv2", " registry", " proxy", "'" + REGISTRY, " sidecar", " --domain")
"""Texts that a look at single words would find in what templates render."""


def overrides(revision: Revision, image: str) -> list[tuple[str, dict[str, Any]]]:
    """Pods that give another image to a container of the template without a guard, each with the name of the value that does it."""
    results = []
    for kind, table in (("annotations", PASTED), ("labels", LABELS)):
        for name in table.keys() - {"sidecar.istio.io/proxyImage"}:
            marked = breakouts.put(replica("shop"), ("metadata", kind, name), "mark")
            for value in {
                name for text in rendered(revision, marked) for name in breakouts.overriding(text, "mark", image)
            }:
                pod = breakouts.put(marked, ("metadata", kind, name), value)
                if image.encode() in shown_images(injected(revision, pod, OFF)):
                    results.append((name, pod))
    return results


def rendered(revision: Revision, pod: dict[str, Any]) -> list[str]:
    """What the default templates print for a pod; nothing if Istio refuses it."""
    try:
        admitted = admitted_pod(pod, "shop")
        params = webhook_parameters(revision, admitted, RequestFacts("shop"))
        names = params.default_templates or tuple(revision.templates)
        return [revision.templates[name].render(template_data(params, admitted)) for name in names]
    except DataError:
        return []


def shown_images(result: Injected | Skipped | DataError) -> bytes:
    """The images of all containers."""
    if not isinstance(result, Injected):
        return b""
    spec = result.pod["spec"]
    images = (container.get("image") for kind in ("containers", "initContainers") for container in spec.get(kind) or ())
    return "\n".join(map(str, images)).encode()


@pytest.mark.parametrize("name", controlplanes.parameters(corpus.MINORS))
@pytest.mark.parametrize("excuses", [(), EXCUSES], ids=["alone", "with unrelated annotations"])
def test_no_value_gives_a_container_another_image(name: str, excuses: tuple[str, ...]) -> None:
    revision = controlplanes.revision_of(name)
    results = overrides(revision, f"{EVIL}.example.com/proxy:1")
    for key, pod in results:
        pod["metadata"]["annotations"] |= {f"example.com/{number}": text for number, text in enumerate(excuses)}
        result = injected(revision, pod)
        assert isinstance(result, BreakOutError), key
        assert key in result.where
    assert results, "else the guard was not put to the test"


TWICE = """spec:
  containers:
  - name: istio-proxy
    image: {registry}:{tag}
    args:
    - {{}}
    - b
    securityContext: {{{{runAsNonRoot: true}}}}
""".format(registry=REGISTRY, tag="1.2")
FLOW = (
    "spec: {{containers: [{{name: istio-proxy, args: ['{}'], securityContext: {{runAsNonRoot: true}}, image: {} }}]}}"
)
PASTES = {
    "go": ("{{ index .ObjectMeta.Labels `v` }}", "{{ index .ObjectMeta.Labels `w` }}"),
    "jinja2": ('{{ label("v") }}', '{{ label("w") }}'),
}


def revision_with(engine: str, text: str) -> Revision:
    """A revision with one template."""
    return revision_of(config=json.dumps({"policy": "enabled", "templates": {"sidecar": text}}), engine=engine)


@pytest.mark.parametrize("engine", PASTES)
@pytest.mark.parametrize("image", LOOKALIKES)
def test_no_value_changes_the_registry_of_an_image_however_alike_it_looks(engine: str, image: str) -> None:
    revision = revision_with(
        engine, TWICE.format(PASTES[engine][0]).replace("{{runAs", "{runAs").replace("true}}", "true}")
    )
    pod = make_pod(
        labels={"v": f'x\n    image: "{image}:1.2"\n    args:\n    - x'}, annotations={"a": "x'", "b": " registry"}
    )

    assert isinstance(injected(revision, pod, OFF), Injected)
    assert isinstance(injected(revision, pod), BreakOutError)


@pytest.mark.parametrize("engine", PASTES)
@pytest.mark.parametrize("key", ["securityContext.", "securityContextx", "security-Context", "x securityContext"])
def test_no_values_take_the_security_context_away(engine: str, key: str) -> None:
    revision = revision_with(engine, FLOW.format(*PASTES[engine]))
    pod = make_pod(labels={"v": f"x'], {key}: {{runAsNonRoot: true}}, image: \"", "w": 'registry"'})

    unguarded = injected(revision, pod, OFF)

    assert isinstance(unguarded, Injected)
    assert "securityContext" not in unguarded.pod["spec"]["containers"][-1]
    assert isinstance(injected(revision, pod), BreakOutError)


ITEMS = (
    *("{v}", '"{v}"', "'{v}'", "--flag={w}", '"--flag={w}"', "'{v}/between/{w}'", "|-\n      {v}\n    ", "a{w}"),
    *('{{a: "{v}"}}', "['{w}']"),
)
IMAGES = (REGISTRY + "/{w}:1.2", '"' + REGISTRY + '/{v}:1.2"', "'" + REGISTRY + "/{w}:1.2'", REGISTRY)
ENTRIES = ('"{v}": "y"', "'{w}': z", "k: {w}", 'k: "{v}"', "k: c")
AROUND = {f"{REGISTRY}/clean:1.2": (f"{REGISTRY}/", ":1.2"), "--flag=clean": ("--flag=", "")}
"""What a text of a template has around a value."""
FRAGMENTS = (
    *breakouts.QUOTES,
    *breakouts.BREAKS,
    *breakouts.SINGLE,
    *(" " * size for size in range(2, 12)),
    *(f"{key}: true" for key in breakouts.KEYS),
    *(f"{key}:" for key in breakouts.LISTS),
    *(f"{key}: {content}" for key, content in (*breakouts.ITEMS, *breakouts.DIRECTIVES)),
    *(
        "    args:\n    - proxy\n    - ",
        '"], "image": "evil", "args": ["',
        '{"a": "b"}',
        '["a"]',
        '"a"',
        "': x, 'y",
        REGISTRY,
    ),
)


@dataclass(frozen=True)
class Inserting:
    """A template that inserts two labels."""

    item: str
    image: str
    entry: str

    def text(self, engine: str) -> str:
        v, w = PASTES[engine]
        item, image, entry = (part.format(v=v, w=w) for part in (self.item, self.image, self.entry))
        return (
            f"metadata:\n  annotations:\n    {entry}\n"
            f"spec:\n  containers:\n  - name: istio-proxy\n    image: {image}\n    args:\n    - proxy\n    - {item}\n"
            "    securityContext: {runAsNonRoot: true, privileged: false}\n    env:\n    - {name: A, value: b}\n"
            "  volumes:\n  - name: v\n    emptyDir: {}\n"
        )


def scalars(data: Any) -> dict[Path, Any]:
    """All scalars of JSON data by their paths, and how many items each list and each object has."""
    return {path: (type(v), len(v)) if isinstance(v, dict | list) else v for path, v in values_in(data)}


def changed(real: Any, clean: Any, other: Any) -> list[Any]:
    """What a rendering changes beside inserted texts: those that differ in the renderings of two clean pods."""
    result, one, two = map(scalars, (real, clean, other))
    faults: list[Any] = [
        path for path, value in one.items() if two.get(path) == value and result.get(path, result) != value
    ]
    for path in one.keys() & two.keys() & result.keys():
        before, after = AROUND.get(one[path], ("", "")) if isinstance(one[path], str) else ("", "")
        if one[path] != two[path] and not (str(result[path]).startswith(before) and str(result[path]).endswith(after)):
            faults.append(path)
    return faults if len(result) == len(one) else [*faults, len(result)]


@pytest.mark.parametrize("engine", PASTES)
def test_no_two_values_change_anything_outside_the_places_of_insertion(engine: str) -> None:
    dice = random.Random(f"{engine} {VALUES}")  # noqa: S311 -- nothing secret
    refused = 0
    for _ in range(2 * VALUES):
        text = Inserting(dice.choice(ITEMS), dice.choice(IMAGES), dice.choice(ENTRIES)).text(engine)
        revision = revision_with(engine, text)
        clean, other = (overlay(revision, {"v": word, "w": word}) for word in ("clean", "other"))
        for _ in range(30):
            labels = {name: "".join(dice.choices(FRAGMENTS, k=dice.choice((1, 1, 2, 3, 5)))) for name in "vw"}
            result = overlay(revision, labels)
            refused += isinstance(result, BreakOutError)
            assert isinstance(result, DataError) or not changed(result, clean, other), json.dumps([text, labels])
    assert refused > VALUES


def overlay(revision: Revision, labels: dict[str, str]) -> Any:
    """What the one template of a revision renders for a pod with these labels, if the guard lets it pass."""
    admitted = admitted_pod(make_pod(labels=labels), "shop")
    params = webhook_parameters(revision, admitted, RequestFacts("shop"))
    try:
        rendered, _ = render_guarded(params, admitted, TreesOfTemplates(revision, admitted, ("sidecar",)))
    except DataError as error:
        return error
    return rendered


class TreesOfTemplates(OverlayTemplates):
    """Templates whose overlays are not merged."""

    def merge(self, overlays: list[Overlay]) -> Any:
        return self.trees(overlays)


def revisions() -> dict[str, Revision]:
    """One of each control plane, and those that the project ships."""
    planes = {name: controlplanes.revision_of(name) for name in controlplanes.names(corpus.MINORS)}
    return {**planes, **{name: embedded(name) for name in ("stable", "canary")}}


def wrongly_refused(revision: Revision, dice: random.Random, pods: int) -> tuple[int, list[str]]:
    """Of so many realistic pods: how many Istio injects, and the refusals among them."""
    count, faults = 0, []
    for number in range(pods):
        pod = realistic.pod(dice) if number else breakouts.put(replica("shop"), ("metadata", "labels", "a"), "b")
        if not number:
            pod["metadata"]["annotations"] |= realistic.many(400)
        unguarded, result = injected(revision, pod, OFF), injected(revision, pod)
        if isinstance(unguarded, Injected):
            count += 1
            if not isinstance(result, Injected) or result.pod != unguarded.pod:
                faults.append(str(result))
    return count, faults


def test_realistic_pods_are_injected_as_without_the_guard() -> None:
    for name, revision in revisions().items():
        count, faults = wrongly_refused(revision, random.Random(f"{name} {PODS}"), PODS)  # noqa: S311 -- nothing secret

        assert faults == [], name
        assert count > PODS // 2


def test_a_clean_pod_is_rendered_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def counted(params: Parameters, calls: dict[str, Any]) -> TemplateData:
        counts.append(1)
        return template_data(params, calls)

    monkeypatch.setattr(guard, "template_data", counted)

    for revision in revisions().values():
        counts.clear()
        assert isinstance(injected(revision, replica("shop")), Injected)
        assert not counts, "a clean pod is not rendered again"
        dirty = breakouts.put(replica("shop"), ("metadata", "annotations", "checksum/config"), "it's")
        assert isinstance(injected(revision, dirty), Injected)
        assert 1 <= len(counts) <= 2, "a value that no template reads costs a rendering or two"
