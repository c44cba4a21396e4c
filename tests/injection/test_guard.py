"""The guard: values of a pod that break out of a template are refused, and no others."""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import BreakOutError, DataError, OverlayError, TemplateBudgetError, TemplateRenderError
from injector.injection import guard as guard_module
from injector.injection.data import Parameters, template_data
from injector.injection.guard import (
    FILLERS,
    MORE_FILLERS,
    Filler,
    TemplateGuard,
    dangerous_texts,
    decodes,
    difference,
    has_constants,
    is_dangerous,
    is_document,
    is_encoded,
)
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, OFF, WARN, Injected, RequestFacts
from injector.istio.template import TemplateData
from tests.cases import cases
from tests.factories import make_pod
from tests.property import realistic
from tests.property.breakouts import EVIL
from tests.revisions.fakes import facts_with, revision_of
from tests.revisions.fakes import injected as injection_of

CONFIG = """\
policy: enabled
templates:
  sidecar: |
    spec:
      containers:
      - name: istio-proxy
        image: {{ index .ObjectMeta.Annotations `image` | default "proxy" }}
        args: ["{{ index .ObjectMeta.Annotations `arg` }}"]
      {{- if isset .ObjectMeta.Annotations `volumes` }}
      volumes:
      {{- range $name, $volume := fromJSON (index .ObjectMeta.Annotations `volumes`) }}
      - name: "{{ $name }}"
        {{ toYaml $volume | indent 8 }}
      {{- end }}
      {{- end }}
"""
HOSTILE = "x" + f"\n  - name: {EVIL}\n    image: {EVIL}"
BROKEN = CONFIG.replace("containers:", "containers: [")


def injected(annotations: dict[str, str], guard: str = ENFORCE, config: str = CONFIG, **spec: Any) -> Injected:
    facts = RequestFacts("shop", guard=guard)
    return injection_of(revision_of(config=config), make_pod(annotations=annotations, **spec), facts)


def names(result: Injected, kind: str = "containers") -> list[str]:
    return [container["name"] for container in result.pod["spec"][kind]]


def test_a_value_that_breaks_out_is_refused_by_name_and_not_shown() -> None:
    with pytest.raises(BreakOutError) as refused:
        injected({"image": HOSTILE})

    assert refused.value.where == "metadata.annotations[image]"
    assert "breaks out of the template: it changes spec.containers" in refused.value.what
    assert EVIL not in str(refused.value)


def test_a_variable_of_a_proxy_config_resource_is_refused_if_it_breaks_out() -> None:
    config = CONFIG.replace("index .ObjectMeta.Annotations `image`", "index .ProxyConfig.ProxyMetadata `IMAGE`")

    def inject(*specs: dict[str, Any], **pod: Any) -> Injected:
        return injection_of(revision_of(config=config, facts=facts_with(*specs)), make_pod(**pod))

    hostile, harmless = ({"environmentVariables": {"IMAGE": value}} for value in (HOSTILE, "a:b # c"))
    for spec in (hostile, {**hostile, "selector": {"matchLabels": {"app": "web"}}}):
        with pytest.raises(BreakOutError) as refused:
            inject(spec, labels={"app": "web"})
        assert "proxyMetadata.IMAGE" in refused.value.where
        assert EVIL not in str(refused.value)
    assert names(inject(hostile, namespace="other"))[-1] == "istio-proxy"
    # The annotation replaces the value of the resource below it.
    assert (
        names(inject(hostile, annotations={"proxy.istio.io/config": "proxyMetadata: {IMAGE: x}"}))[-1] == "istio-proxy"
    )
    assert names(inject(harmless))[-1] == "istio-proxy"


def test_a_guard_that_warns_injects_it_and_says_what_one_that_enforces_says() -> None:
    result = injected({"image": HOSTILE}, WARN)

    with pytest.raises(BreakOutError) as refused:
        injected({"image": HOSTILE})
    assert sorted(names(result)) == sorted(["app", "istio-proxy", EVIL])
    assert result.warnings == result.findings == (str(refused.value),)


def test_a_guard_that_is_off_looks_at_nothing() -> None:
    result = injected({"image": HOSTILE}, OFF)

    assert sorted(names(result)) == sorted(["app", "istio-proxy", EVIL])
    assert result.findings == ()


@pytest.mark.parametrize(
    "annotations",
    [{}, {"image": "it's"}, {"image": "a/b:1 # c"}, {"arg": "a: b {c} [d] - e"}, {"unread": HOSTILE}, {"arg": "a\nb"}],
)
def test_what_stays_where_it_is_pasted_is_let_through_as_it_is(annotations: dict[str, str]) -> None:
    assert injected(annotations) == injected(annotations, OFF)


def test_of_several_values_the_one_to_blame_is_named() -> None:
    with pytest.raises(BreakOutError) as refused:
        injected({"a": "it's", "arg": "it's", "image": HOSTILE, "z": "it's"}, nodeSelector={"a": "b'"})

    assert refused.value.where == "metadata.annotations[image]"


def test_json_that_a_template_decodes_is_the_users_to_write() -> None:
    result = injected({"volumes": '{"data": {"hostPath": {"path": "/it\'s"}}}'})

    assert names(result, "volumes") == ["data"]


def test_what_is_pasted_of_decoded_json_is_not() -> None:
    with pytest.raises(BreakOutError) as refused:
        injected({"volumes": '{"a\\"\\n  - name: \\"' + EVIL + '": {"emptyDir": {}}}'})

    assert refused.value.where == "metadata.annotations[volumes]"


@pytest.mark.parametrize("annotation", [{"image": "*"}, {"image": "{a"}])
def test_a_value_that_the_template_fails_on_is_named_if_it_is_suspicious(annotation: dict[str, str]) -> None:
    if annotation == {"image": "*"}:
        with pytest.raises(OverlayError):
            injected(annotation)
        return
    with pytest.raises(BreakOutError, match="the value makes the template fail, or render what is not YAML") as refused:
        injected(annotation)

    assert refused.value.where == f"metadata.annotations[{next(iter(annotation))}]"


@pytest.mark.parametrize(
    "volumes", ["{", "it's no JSON", '"a: b"', "[1, {}]", '{"a": "b"}', '[{"hostPath": {"path": 1}}]']
)
@pytest.mark.parametrize("more", [{}, {"arg": "it's"}, {"unread": HOSTILE}])
def test_an_error_that_the_template_has_with_fillers_too_is_its_own(volumes: str, more: dict[str, str]) -> None:
    errors = []
    for guard in (ENFORCE, OFF):
        with pytest.raises(DataError) as refused:
            injected({"volumes": volumes, **more}, guard)
        errors.append((type(refused.value), str(refused.value)))

    assert errors[0] == errors[1]
    assert errors[0][0] is not BreakOutError


@pytest.mark.parametrize("annotations", [{"volumes": "{"}, {"volumes": "it's no JSON", "arg": "it's"}])
def test_an_error_leaves_no_objects_to_the_garbage_collector(annotations: dict[str, str]) -> None:
    """A pod that is refused may be large, and the collector comes late."""

    def alive() -> list[object]:
        return [one for one in gc.get_objects() if isinstance(one, TemplateGuard | DataError)]

    injected({})
    gc.collect()
    gc.disable()
    try:
        before = alive()  # of other tests
        with contextlib.suppress(DataError):
            injected(annotations)
        assert alive() == before
    finally:
        gc.enable()


def test_a_value_that_breaks_out_is_named_beside_one_that_fails_with_a_filler() -> None:
    with pytest.raises(BreakOutError) as refused:
        injected({"volumes": '{"a": {"emptyDir": {}}}', "image": "{a"})

    assert refused.value.where == "metadata.annotations[image]"


@pytest.mark.parametrize(
    "config",
    [
        'concurrency: " 2"',
        '{"concurrency": "2 "}',
        'concurrency: " null "',
        'tracing: {sampling: " 50 "}',
        'gatewayTopology: {numTrustedProxies: " 1"}',
        'statusPort: "15020 "\nproxyMetadata: {A: " 2"}',
    ],
)
def test_a_number_with_spaces_in_a_proxy_config_is_let_through_as_istio_does(config: str) -> None:
    annotations = {"proxy.istio.io/config": config, "arg": " 2"}

    assert injected(annotations) == injected(annotations, OFF)


def test_a_value_with_which_the_template_exceeds_its_budget_is_no_break_out() -> None:
    endless = "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"
    config = CONFIG.replace(
        "spec:", f"{{{{ if isset .ObjectMeta.Annotations `image` }}}}{endless}{{{{ end }}}}\n    spec:"
    )

    with pytest.raises(TemplateBudgetError):
        injected({"image": "it's"}, config=config)


@pytest.mark.parametrize("guard", [WARN, OFF])
def test_a_guard_that_does_not_enforce_leaves_the_error_as_it_is(guard: str) -> None:
    with pytest.raises(OverlayError):
        injected({"image": "{a"}, guard)


def test_a_template_that_fails_for_every_pod_is_not_blamed_on_this_one() -> None:
    with pytest.raises(OverlayError):
        injected({"image": "it's"}, config=BROKEN)
    with pytest.raises(TemplateRenderError):
        injected({"image": "it's"}, config=CONFIG.replace("isset .ObjectMeta", "isset .Nothing"))


def test_lists_that_are_appended_are_guarded_too() -> None:
    single = "policy: enabled\ntemplate: |\n  containers:\n  - name: p\n    image: {{ .ObjectMeta.Labels.a }}\n"
    revision = revision_of(8, single)
    pod = make_pod(labels={"a": "x" + "\n- name: " + EVIL})

    with pytest.raises(BreakOutError, match=r"metadata\.labels\[a\].* changes containers"):
        inject_pod(revision, pod, RequestFacts("shop"))


def test_in_a_large_pod_the_search_ends_early_and_says_so() -> None:
    many = {f"a{index}": f"it's\n{index}" for index in range(2_500)}
    reads_all = CONFIG.replace("{{- if isset", "{{- $count := len .ObjectMeta.Annotations }}\n      {{- if isset")

    with pytest.raises(BreakOutError) as refused:
        injected({**many, "image": HOSTILE}, config=reads_all)

    assert refused.value.where == "metadata.annotations[a1], or one of 2499 other values"


def test_a_value_that_gives_a_key_of_the_template_twice_is_refused() -> None:
    config = CONFIG.replace(
        "        args:", "        command: [{{ index .ObjectMeta.Annotations `command` }}]\n        args:"
    )

    with pytest.raises(BreakOutError, match=r"annotations\[command\].* changes spec\.containers\[0\]\.image"):
        injected({"command": "a]\n    image: " + EVIL + "\n    command: [b"}, config=config)


@pytest.mark.parametrize(("toleration", "value"), [("%s", "?key"), ("{ %s: {key: a} }", "<<")])
def test_a_value_that_is_a_key_of_yaml_is_refused(toleration: str, value: str) -> None:
    toleration %= "{{ index .ObjectMeta.Annotations `image` }}"
    config = CONFIG.replace("    spec:", f"    spec:\n      tolerations: [{toleration}]")

    assert injected({"image": value}, OFF, config).pod["spec"]["tolerations"]
    with pytest.raises(BreakOutError, match=r"annotations\[image\].* changes spec\.tolerations\[0\]"):
        injected({"image": value}, config=config)


@pytest.mark.parametrize("key", ["a'b", "}\n- b", " c", "Z{"])
def test_wherever_an_inserted_key_sorts_the_pod_is_let_through(key: str) -> None:
    config = CONFIG.replace(
        '"{{ index .ObjectMeta.Annotations `arg` }}"', "{{ toJSON .ObjectMeta.Annotations | quote }}"
    )
    annotations = {"a": "b", "example.com/team": "shop", key: "debug"}

    assert injected(annotations, config=config) == injected(annotations, OFF, config)


def test_deep_json_is_let_through() -> None:
    config = CONFIG.replace(
        '"{{ index .ObjectMeta.Annotations `arg` }}"', "{{ toJSON .ObjectMeta.Annotations | quote }}"
    )
    annotations = {"arg": "[" * 900 + '"it\'s"' + "]" * 900}

    assert injected(annotations, config=config) == injected(annotations, OFF, config)


def test_a_field_of_the_proxy_config_annotation_is_named() -> None:
    config = CONFIG.replace("index .ObjectMeta.Annotations `image`", "index .ProxyConfig.ProxyMetadata `IMAGE`")
    proxy = json.dumps({"proxyMetadata": {"OTHER": "it's\n", "IMAGE": HOSTILE}})

    with pytest.raises(BreakOutError) as refused:
        injected({"proxy.istio.io/config": proxy}, config=config)

    assert refused.value.where == "metadata.annotations[proxy.istio.io/config].proxyMetadata.IMAGE"


@pytest.mark.parametrize("value", ["a\nb", "it's\t", '\\"', "50% 'off'", "a&b\n"])
def test_however_a_function_escapes_it_a_value_is_let_through(value: str) -> None:
    config = CONFIG.replace(
        '"{{ index .ObjectMeta.Annotations `arg` }}"', "{{ toJSON .ObjectMeta.Annotations | quote }}"
    )

    assert injected({"arg": value}, config=config) == injected({"arg": value}, OFF, config)


PIPED = """\
policy: enabled
templates:
  sidecar: |
    spec:
      containers:
      - name: istio-proxy
        image: registry.example.com/proxy:1
        args: [{{ index .ObjectMeta.Annotations `arg` | %s | toString | toJson }}]
        env:
        - {name: A, value: {{ printf "before-%%s-after" (index .ObjectMeta.Annotations `arg` | %s | toString) | toJson }} }
"""


@cases("function")
def test_a_value_that_passes_through_a_function_is_let_through(function: str) -> None:
    revision = revision_of(config=PIPED % (function, function))
    for value in (*realistic.VALUES, *realistic.TOOLS.values()):
        pod = make_pod(annotations={"arg": value})
        with contextlib.suppress(DataError):
            unguarded = inject_pod(revision, pod, RequestFacts("shop", guard=OFF))
            assert inject_pod(revision, pod, RequestFacts("shop")) == unguarded, value


DECIDING = CONFIG.replace("        args:", "        %s\n        args:")


@cases("decision", "expected")
def test_a_template_that_decides_by_the_syntax_in_a_value_is_named_in_the_advice(decision: str, expected: str) -> None:
    config = (DECIDING % decision).replace('"{{ index .ObjectMeta.Annotations `arg` }}"', "b")

    with pytest.raises(BreakOutError, match=expected) as refused:
        injected({"arg": 'a"b', "other": "it's"}, config=config)

    assert refused.value.where == "metadata.annotations[arg]"
    assert "if the template is meant to decide by them, run the guard with `warn`" in refused.value.hint


@pytest.mark.parametrize("value", ['{"user": "b"}', '{\n"user": "b",\n"role": "c"}'])
@pytest.mark.parametrize("around", ["%s", "{seLinuxOptions: %s }"])
def test_json_that_a_template_does_not_decode_does_not_become_structure(value: str, around: str) -> None:
    config = (DECIDING % "securityContext: %s") % (around % "{{ index .ObjectMeta.Annotations `context` }}")

    assert injected({"context": value}, OFF, config)
    with pytest.raises(BreakOutError, match=r"annotations\[context\]"):
        injected({"context": value}, config=config)


def test_json_is_accepted_if_another_annotation_is_inserted_as_text() -> None:
    annotations = {"volumes": '{"data": {"emptyDir": {}}}', "image": '\'{"a": ["b"]}\'', "other": '{"c": "d"}'}

    assert injected(annotations) == injected(annotations, OFF)


@pytest.mark.parametrize(
    ("value", "refused"), [("it's: b", False), ('a"]\n    image: ' + EVIL + '\n    args: ["b', True)]
)
def test_values_with_syntax_that_only_a_template_decodes_are_guarded(value: str, *, refused: bool) -> None:
    config = CONFIG.replace("index .ObjectMeta.Annotations `arg`", "index .ObjectMeta.Annotations `arg` | b64dec")
    annotations = {"arg": base64.b64encode(value.encode()).decode(), "image": "registry.example.com/team/proxy:1"}

    unguarded = injected(annotations, OFF, config)

    if refused:
        with pytest.raises(BreakOutError, match=r"annotations\[arg\]"):
            injected(annotations, config=config)
    else:
        assert injected(annotations, config=config) == unguarded


def test_a_hostile_pod_costs_few_renderings(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def counted(params: Parameters, calls: dict[str, Any]) -> TemplateData:
        counts.append(1)
        return template_data(params, calls)

    monkeypatch.setattr(guard_module, "template_data", counted)

    for noise in ({}, {f"a{index}": f'{{"id": {index}}}' for index in range(400)}):
        counts.clear()
        with pytest.raises(BreakOutError, match=r"annotations\[image\]"):
            injected({**noise, "image": HOSTILE})
        assert len(counts) <= 6


def test_texts_between_two_values_stay() -> None:
    image = 'image: "{{ index .ObjectMeta.Annotations `a` }}.registry/{{ index .ObjectMeta.Annotations `b` }}"'
    config = CONFIG.replace('image: {{ index .ObjectMeta.Annotations `image` | default "proxy" }}', image)
    hostile = {"a": '"\n    image: "', "b": '"\n    image: "' + EVIL}

    assert EVIL in str(injected(hostile, OFF, config).pod["spec"]["containers"])
    assert injected({"a": "it's", "b": "it's"}, config=config)
    with pytest.raises(BreakOutError):
        injected(hostile, config=config)


@cases("real", "renderings", "expected")
def test_a_scalar_has_the_texts_that_are_around_the_value(real: Any, renderings: list[Any], *, expected: bool) -> None:
    assert has_constants(real, renderings) is expected
    assert (difference({"k": real}, [{"k": rendering} for rendering in renderings]) is None) is expected


@cases("real", "renderings", "path")
def test_the_first_difference_is_found(real: Any, renderings: list[Any], path: tuple[Any, ...] | None) -> None:
    result = difference(real, renderings)

    assert (None if result is None else result.path) == path


def test_objects_with_very_many_keys_take_no_longer_for_each() -> None:
    real, *renderings = (
        {**dict.fromkeys(map(str, range(20_000)), "a"), text: "b"} for text in ("it's", "itxs", "it7s")
    )
    start = time.thread_time()

    assert difference(real, renderings) is None

    assert time.thread_time() - start < 2


EVERY = (*FILLERS, *MORE_FILLERS)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@cases("text", also=["a\ud800"])
def test_syntax_of_yaml_is_dangerous(text: str) -> None:
    assert is_dangerous(text)


@cases("text")
def test_ordinary_texts_are_not_dangerous_and_stay_as_they_are(text: str) -> None:
    assert not is_dangerous(text)
    assert all(filler.fill(text) == text for filler in FILLERS)


@given(texts=st.lists(st.text("a0-:?,./#=<$( \n\0'\u2028") | st.text("a0-:./") | st.text("a0-: .", max_size=4)))
def test_the_dangerous_texts_of_many_are_told_as_those_of_one(texts: list[str]) -> None:
    assert dangerous_texts(texts) == [text for text in dict.fromkeys(texts) if is_dangerous(text)]


@given(text=st.text("ax-:?,.#*<{\n \r\0'\u2028", min_size=1))
def test_fillers_are_harmless_as_long_as_the_text_and_differ_where_it_is_dangerous(text: str) -> None:
    filled = [filler.fill(text) for filler in EVERY]

    assert not any(map(is_dangerous, filled))
    assert {len(text) for text in filled} == {len(text)}
    assert (len(set(filled[:2])) > 1) is is_dangerous(text)


@cases("text", "expected")
def test_all_other_characters_stay(text: str, expected: str) -> None:
    assert FILLERS[0].fill(text) == expected


@cases("text", "expected")
def test_json_is_a_document(text: str, *, expected: bool) -> None:
    assert is_document(text) is expected


@pytest.mark.parametrize(
    "value", [{}, {"a": ["it's", {"b: c": 1.50}], "d": "e"}, ["\\", '"', "\n", "ü"], "it's", [True, None]]
)
def test_a_document_keeps_its_structure_and_its_harmless_texts(value: object) -> None:
    text = json.dumps(value, indent=1)
    compact, spaced = (json.loads(replace(filler, in_json=True).fill(text)) for filler in FILLERS)

    assert compact == inert(value, FILLERS[0])
    assert spaced == inert(value, FILLERS[1])


def inert(value: object, filler: Filler) -> object:
    if isinstance(value, dict):
        return {filler.fill(key): inert(item, filler) for key, item in value.items()}
    if isinstance(value, list):
        return [inert(item, filler) for item in value]
    return filler.fill(value) if isinstance(value, str) else value


@pytest.mark.parametrize("text", ["it's", encoded("a\n- b"), "aGVs/G8=", "https://a/%22b", "REGISTRY.example.com/a"])
def test_templates_that_decode_make_any_text_dangerous_that_is_not_a_plain_name(text: str) -> None:
    filled = [replace(filler, decoding=True).fill(text) for filler in FILLERS]

    assert is_encoded(text)
    assert filled[0] != filled[1]
    assert not any("%" in text or is_dangerous(text) for text in filled)


@pytest.mark.parametrize("text", ["shop", "web-frontend-2", "deployment", "", "1.2"])
def test_plain_names_are_not_dangerous_even_then(text: str) -> None:
    assert not is_encoded(text)
    assert all(replace(filler, decoding=True).fill(text) == text for filler in FILLERS)


def test_a_plain_name_that_decodes_to_syntax_is_dangerous() -> None:
    assert '"' in base64.b64decode("agci").decode()
    assert is_encoded("agci")


@pytest.mark.parametrize("start", range(4))
def test_wherever_the_decoding_of_the_first_filler_begins_it_gives_harmless_text(start: int) -> None:
    text = replace(FILLERS[0], decoding=True).fill(encoded("it's\n- a: b" * 5))[start:]

    assert set(base64.b64decode(text[: len(text) // 4 * 4])) == {ord("U")}


def test_a_filler_of_an_encoded_text_decodes_to_a_filler_of_it() -> None:
    text = replace(FILLERS[0], decoding=True).fill(encoded("it's\na: b"))

    assert base64.b64decode(text) == b"UUUUUUUUU"


@pytest.mark.parametrize(("pipe", "expected"), [("b64dec", True), ("urlParse | toJson", True), ("b64enc", False)])
def test_templates_tell_whether_they_decode(pipe: str, *, expected: bool) -> None:
    config = json.dumps({"policy": "enabled", "templates": {"sidecar": "{{ .Revision | " + pipe + " }}"}})
    assert decodes(revision_of(config=config)) is expected


def test_zero_values_of_a_proxy_config_are_read_alike_with_and_without_fillers() -> None:
    config = CONFIG.replace(
        "        args:", "        command: [{{ .ProxyConfig.InterceptionMode | quote }}]\n        args:"
    )
    mesh = "defaultConfig: {interceptionMode: TPROXY}"
    annotation = 'interceptionMode: REDIRECT\nproxyMetadata: {A: "it\'s: {x"}\n'
    pod = make_pod(annotations={"proxy.istio.io/config": annotation})

    result = injection_of(revision_of(config=config, mesh=mesh), pod)

    assert result.pod["spec"]["containers"][-1]["command"] == ["TPROXY"]
