from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import BreakOutError, DataError, OverlayError, TemplateRenderError
from injector.injection import guard as guard_module
from injector.injection.data import template_data
from injector.injection.guard import has_constants, mismatch
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, OFF, WARN, Injected, RequestFacts
from injector.revisions.build import build
from tests.factories import make_pod
from tests.property import realistic
from tests.property.breakouts import EVIL
from tests.revisions.fakes import make_raw

if TYPE_CHECKING:
    from injector.injection.data import Parameters
    from injector.istio.revision import Revision
    from injector.istio.template import TemplateData

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
BROKEN = CONFIG.replace("containers:", "containers: [")


def revision_of(config: str) -> Revision:
    return build(make_raw("rev", config=config, settings={"istioVersion": "1.30"}))


def injected(annotations: dict[str, str], guard: str = ENFORCE, config: str = CONFIG, **spec: Any) -> Injected:
    revision = revision_of(config)
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
    with pytest.raises(BreakOutError, match="the value makes the template fail, or render what is not YAML") as refused:
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


def test_in_a_large_pod_the_search_ends_early_and_says_so() -> None:
    many = {f"a{index}": f"it's\n{index}" for index in range(2_500)}

    with pytest.raises(BreakOutError) as refused:
        injected({**many, "image": HOSTILE})

    assert refused.value.where == "metadata.annotations[a1], or one of 2499 other values"


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


FUNCTIONS = (
    *(
        "upper",
        "title",
        "swapcase",
        "snakecase",
        "nospace",
        "trim",
        "quote",
        "squote",
        "toJson",
        "urlquery",
        "html",
        "len",
        "int",
    ),
    *(
        "b64enc",
        "b64enc | b64enc",
        "b64enc | trunc 7",
        "b32enc",
        "sha256sum",
        "sha256sum | trunc 8",
        "adler32sum",
        'printf "%x"',
    ),
    *(
        "trunc 5",
        "trunc 63",
        "trunc -5",
        "abbrev 10",
        "repeat 2",
        'cat "a"',
        "indent 4",
        'splitList " " | first',
        'contains "x"',
    ),
)
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


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_value_that_passes_through_a_function_is_let_through(function: str) -> None:
    revision = revision_of(PIPED % (function, function))
    for value in (*realistic.VALUES, *realistic.TOOLS.values()):
        pod = make_pod(annotations={"arg": value})
        with contextlib.suppress(DataError):
            unguarded = inject_pod(revision, pod, RequestFacts("shop", guard=OFF))
            assert inject_pod(revision, pod, RequestFacts("shop")) == unguarded, value


DECIDING = CONFIG.replace("        args:", "        %s\n        args:")


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (
            '{{ if contains `"` (index .ObjectMeta.Annotations `arg`) }}tty: true{{ end }}',
            r"changes spec\.containers\[0\]",
        ),
        (
            '{{ if not (contains `"` (index .ObjectMeta.Annotations `arg`)) }}{{ fail `no` }}{{ end }}',
            "cannot be checked: the template fails without its special characters",
        ),
    ],
)
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


def test_json_is_let_through_where_one_annotation_is_decoded_and_another_is_inserted_as_text() -> None:
    annotations = {"volumes": '{"data": {"emptyDir": {}}}', "image": '\'{"a": ["b"]}\'', "other": '{"c": "d"}'}

    assert injected(annotations) == injected(annotations, OFF)


@pytest.mark.parametrize(
    ("value", "refused"), [("it's: b", False), ('a"]\n    image: ' + EVIL + '\n    args: ["b', True)]
)
def test_values_are_guarded_that_show_their_syntax_only_when_a_template_decodes_them(
    value: str, *, refused: bool
) -> None:
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

    def counted(params: Parameters, seen: dict[str, Any]) -> TemplateData:
        counts.append(1)
        return template_data(params, seen)

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


@pytest.mark.parametrize(
    ("real", "renderings", "expected"),
    [
        ("a1c", ["axc", "ayc"], True),
        ("ac", ["axc", "ayc"], True),
        ("a", ["axa", "aya"], False),
        ("ba", ["axc", "ayc"], False),
        ("a-b-c", ["axbxc", "aybyc"], True),
        ("a-c", ["axbxc", "aybyc"], False),
        ("cb", ["x", "y"], True),
        ("abc", ["axxc", "ayc"], True),
        ("aac", ["axxcd", "aycd"], False),
        (8080, ["8080x", "8080y"], True),
        (True, ["x", "y"], True),
        (None, [1, 2], True),
        ("ä'ö", ["äxö", "äyö"], True),
    ],
)
def test_a_scalar_has_the_texts_that_are_around_the_value(real: Any, renderings: list[Any], *, expected: bool) -> None:
    assert has_constants(real, renderings) is expected
    assert (mismatch({"k": real}, [{"k": each} for each in renderings]) is None) is expected


@pytest.mark.parametrize(
    ("real", "renderings", "path"),
    [
        ({"a": 1}, [{"a": 1}, {"a": 1}], None),
        ({"a": 1}, [{"a": True}, {"a": True}], ("a",)),
        ({"a": [1]}, [{"a": [1, 2]}, {"a": [1, 2]}], ("a",)),
        ({"a": {"b": 1}}, [{"a": {}}, {"a": {}}], ("a",)),
        ({"k'": 1}, [{"kx": 1}, {"ky": 1}], None),
        ({"k'": 1, "a'": 2}, [{"ax": 2, "kx": 1}, {"ay": 2, "ky": 1}], None),
        ({"k'": 2}, [{"kx": 1}, {"ky": 1}], ()),
        ({"k'": 1}, [{"kx": 1, "a": 1}, {"ky": 1, "a": 1}], ("a",)),
        ({"k'": 1, "j'": 1}, [{"kx": 1}, {"ky": 1}], ()),
        ({"a": [{"b": "c"}]}, [{"a": [{"b": "d"}]}] * 2, ("a", 0, "b")),
        ({"a": {}}, [{"a": "x"}, {"a": "y"}], ("a",)),
    ],
)
def test_the_first_difference_is_found(real: Any, renderings: list[Any], path: tuple[Any, ...] | None) -> None:
    found = mismatch(real, renderings)

    assert (None if found is None else found.path) == path
