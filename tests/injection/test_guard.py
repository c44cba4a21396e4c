from __future__ import annotations

from typing import Any

import pytest

from injector.errors import BreakOutError, OverlayError, TemplateRenderError
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, GUARDS, OFF, WARN, Injected, RequestFacts
from injector.revisions.build import build
from injector.settings import FIELDS, GUARD
from tests.factories import make_pod
from tests.property.breakouts import EVIL
from tests.revisions.fakes import make_raw

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
HOSTILE = "x" + "\n  - name: " + EVIL
CLEAN = make_pod(annotations={"image": "registry.example.com/proxy:1"})
REVISION = build(make_raw("rev", config=CONFIG, settings={"istioVersion": "1.30"}))
BROKEN = CONFIG.replace("containers:", "containers: [")


def injected(annotations: dict[str, str], guard: str = ENFORCE, config: str = CONFIG, **spec: Any) -> Injected:
    revision = build(make_raw("rev", config=config, settings={"istioVersion": "1.30"}))
    result = inject_pod(revision, make_pod(annotations=annotations, **spec), RequestFacts("shop", guard=guard))
    assert isinstance(result, Injected)
    return result


def names(result: Injected, kind: str = "containers") -> list[str]:
    return [each["name"] for each in result.pod["spec"][kind]]


def test_a_value_that_breaks_out_is_refused_by_name_and_not_shown() -> None:
    with pytest.raises(BreakOutError) as refused:
        injected({"image": HOSTILE})

    assert refused.value.where == "metadata.annotations[image]"
    assert "breaks out of the template: it changes spec.containers" in refused.value.what
    assert EVIL not in str(refused.value)


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


@pytest.mark.parametrize("annotation", [{"image": "*"}, {"image": "{a"}, {"volumes": "{"}])
def test_a_value_that_the_template_fails_on_is_named_if_it_is_suspicious(annotation: dict[str, str]) -> None:
    if annotation == {"image": "*"}:
        with pytest.raises(OverlayError):
            injected(annotation)
        return
    with pytest.raises(BreakOutError, match="the value makes the template fail, or render what is no YAML") as refused:
        injected(annotation)

    assert refused.value.where == f"metadata.annotations[{next(iter(annotation))}]"


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
    revision = build(make_raw("rev", config=single, settings={"istioVersion": "1.8"}))
    pod = make_pod(labels={"a": "x" + "\n- name: " + EVIL})

    with pytest.raises(BreakOutError, match=r"metadata\.labels\[a\].* changes containers"):
        inject_pod(revision, pod, RequestFacts("shop"))


def test_the_settings_know_the_same_words() -> None:
    (setting,) = (each for each in FIELDS if each.name == "guard")

    assert (GUARD, setting.default) == (GUARDS, ENFORCE)


def test_in_a_large_pod_the_search_ends_early_and_says_so() -> None:
    many = {f"a{index}": "it's" for index in range(2_500)}

    with pytest.raises(BreakOutError) as refused:
        injected({"image": HOSTILE, **many})

    assert refused.value.where == "metadata.annotations[image], or one of 1249 values behind it"


def test_a_value_that_gives_a_key_of_the_template_twice_is_refused() -> None:
    config = CONFIG.replace(
        "        args:", "        command: [{{ index .ObjectMeta.Annotations `command` }}]\n        args:"
    )

    with pytest.raises(BreakOutError, match=r"annotations\[command\].* changes spec\.containers\[0\]\.image"):
        injected({"command": "a]\n    image: " + EVIL + "\n    command: [b"}, config=config)


@pytest.mark.parametrize("value", ["a\nb", "it's\t", '\\"', "50% 'off'", "a&b\n"])
def test_however_a_function_escapes_it_a_value_is_let_through(value: str) -> None:
    config = CONFIG.replace(
        '"{{ index .ObjectMeta.Annotations `arg` }}"', "{{ toJSON .ObjectMeta.Annotations | quote }}"
    )

    assert injected({"arg": value}, config=config) == injected({"arg": value}, OFF, config)
