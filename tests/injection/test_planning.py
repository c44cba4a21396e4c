"""Plans of templates that look at a pod in every way: each answers as the pipeline does, and those that can be foreseen are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.injection.pipeline import inject_pod
from injector.injection.planner import plans_of
from injector.injection.result import Injected
from injector.revisions.build import build
from tests.factories import make_container, make_pod
from tests.injection.planmaking import FACTS, plans_made
from tests.revisions.fakes import make_raw

if TYPE_CHECKING:
    from injector.istio.revision import Revision

NAMES = ("web", "shop-1", "cart", "istio-proxy", "w" * 63, "true", "Odd", "web")


def revision_of(overlay: str, **settings: Any) -> Revision:
    """A revision whose template is ``overlay``."""
    indented = "".join(f"    {line}\n" for line in overlay.splitlines())
    config = f"policy: enabled\ndefaultTemplates: [sidecar]\ntemplates:\n  sidecar: |\n{indented}"
    return build(make_raw("rev", config=config, settings={"istioVersion": "1.30", **settings}))


def proxy(expression: str) -> str:
    """An overlay whose container prints what an expression gives."""
    return f'spec:\n  containers:\n  - name: istio-proxy\n    image: proxy\n    args: ["{{{{ {expression} }}}}"]'


def pod_of(name: str, **spec: Any) -> dict[str, Any]:
    """A pod whose workload, label, container and service account have one name."""
    containers = [make_container(name, env=[{"name": "A", "value": name}])]
    return make_pod(name, labels={"app": name, "tier": "x"}, containers=containers, serviceAccountName=name, **spec)


@pytest.mark.parametrize(
    "expression",
    [
        ".DeploymentMeta.Name",
        "index .ObjectMeta.Labels `app` | default `none` | trunc 63 | trimSuffix `-`",
        "(index .Spec.Containers 0).Name",
        ".Spec.ServiceAccountName",
        ".DeploymentMeta.Namespace",
        "`constant`",
    ],
)
def test_pods_that_differ_in_names_that_are_printed_share_one_plan(expression: str) -> None:
    revision = revision_of(proxy(expression))

    assert plans_made(revision, [pod_of(name) for name in ("web", "shop-1", "cart")]) >= 3
    assert len(plans_of(revision)) == 1


@pytest.mark.parametrize(
    "expression",
    [
        "upper .DeploymentMeta.Name",
        "len .DeploymentMeta.Name",
        ".DeploymentMeta.Name | trunc 2",
        ".DeploymentMeta.Name | sha256sum",
        "if eq .DeploymentMeta.Name `cart` }}one{{ else }}other{{ end",
        "if hasPrefix `w` (index .ObjectMeta.Labels `app`) }}one{{ else }}other{{ end",
        "if eq .DeploymentMeta.Name .Spec.ServiceAccountName }}same{{ else }}other{{ end",
        "if lt (index .ObjectMeta.Labels `app`) `m` }}one{{ else }}other{{ end",
        "range $key, $value := .ObjectMeta.Labels }}{{ $key }}={{ $value }};{{ end",
        "toJSON .ObjectMeta.Labels | len",
        "index (dict `web` `x` `cart` `y`) .DeploymentMeta.Name",
        "printf `%s-%d` .DeploymentMeta.Name (len .Spec.Containers)",
        "(index (index .Spec.Containers 0).Env 0).Value",
        "index .ObjectMeta.Annotations `note` | default `none`",
    ],
)
@pytest.mark.parametrize("twins", [True, False])
def test_whatever_a_template_looks_at_pods_get_what_the_pipeline_gives(expression: str, *, twins: bool) -> None:
    names = [name for name in NAMES for _ in range(1 + twins)]

    plans_made(revision_of(proxy(expression)), [pod_of(name) for name in names])


CPU = "sidecar.istio.io/proxyCPU"
MEMORY = "sidecar.istio.io/proxyMemory"
SIZED = f'''spec:
  containers:
  - name: istio-proxy
    args: ["{{{{ EXPRESSION }}}}"]
    resources:
      requests:
        cpu: {{{{ index .ObjectMeta.Annotations `{CPU}` }}}}
        memory: "{{{{ index .ObjectMeta.Annotations `{MEMORY}` | default `1Gi` }}}}"'''


def sized(name: str, cpu: str, memory: str) -> dict[str, Any]:
    """A pod that says what its proxy asks for."""
    return make_pod(name, labels={"app": name}, annotations={CPU: cpu, MEMORY: memory})


def test_pods_that_differ_in_the_quantities_that_their_proxies_ask_for_share_one_plan() -> None:
    revision = revision_of(SIZED.replace("EXPRESSION", "`constant`"))
    pods = [sized("web", f"{number}m", f"{number - 1}Mi") for number in (100, 5, 999, 998, 997)]

    assert plans_made(revision, pods) >= 8
    assert len(plans_of(revision)) == 1


@pytest.mark.parametrize(
    "expression",
    [
        f"index .ObjectMeta.Annotations `{CPU}`",
        f"index .ObjectMeta.Annotations `{MEMORY}` | lower",
        f"index .ObjectMeta.Annotations `{CPU}` | trim | toLower",
        f"index .ObjectMeta.Annotations `{CPU}` | trimSuffix `m`",
        f"index .ObjectMeta.Annotations `{CPU}` | trunc 2",
        f"if eq (index .ObjectMeta.Annotations `{CPU}`) `250m` }}}}one{{{{ else }}}}other{{{{ end",
        f"if eq (index .ObjectMeta.Annotations `{CPU}`) (index .ObjectMeta.Annotations `{MEMORY}`) }}}}one{{{{ end",
        f"`1` }}}}1{{{{ index .ObjectMeta.Annotations `{MEMORY}`",
        "toJSON .ObjectMeta.Annotations | len",
        ".EstimatedConcurrency",
    ],
)
def test_whatever_a_template_does_with_a_quantity_pods_get_what_the_pipeline_gives(expression: str) -> None:
    minor = "1.17" if "Concurrency" in expression else "1.30"  # the last that has the field
    revision = revision_of(SIZED.replace("EXPRESSION", expression), istioVersion=minor)
    sizes = ("100m", "250m", "999m", "7m", "1000m", "1500m", "1", "64Mi", "24Mi", "999Mi", "1024Mi")

    plans_made(revision, [sized("web", cpu, memory) for cpu in sizes for memory in sizes for _ in range(2)])


def test_a_quantity_that_is_part_of_a_longer_text_may_not_be_another_one() -> None:
    memory = f"1{{{{ index .ObjectMeta.Annotations `{MEMORY}` }}}}"
    revision = revision_of(
        f"spec:\n  containers:\n  - name: istio-proxy\n    resources: {{limits: {{memory: {memory}}}}}"
    )
    pods = [sized("web", "1m", memory) for memory in ("25Mi", "26Mi", "24Mi")]

    assert plans_made(revision, pods * 2) >= 6
    assert len(plans_of(revision)) == 3


@pytest.mark.parametrize(
    "overlay",
    [
        "metadata:\n  labels:\n    app: constant\nspec:\n  containers:\n  - name: istio-proxy",
        "metadata:\n  labels:\n    {{ .DeploymentMeta.Name }}: x\nspec:\n  containers:\n  - name: istio-proxy",
        "metadata:\n  labels:\n    app: null\nspec:\n  containers:\n  - name: istio-proxy",
        "spec:\n  serviceAccountName: cart\n  containers:\n  - name: istio-proxy",
        "spec:\n  nodeSelector:\n    disk: ssd\n  containers:\n  - name: istio-proxy",
        "spec:\n  tolerations: null\n  containers:\n  - name: istio-proxy",
        "spec:\n  containers:\n  - name: {{ .DeploymentMeta.Name }}\n    image: mine\n  - name: istio-proxy",
        "spec:\n  containers:\n  - name: {{ .DeploymentMeta.Name }}-proxy\n  - name: istio-proxy",
        "spec:\n  containers:\n  - name: istio-proxy\n  - name: cart\n    $patch: delete",
        "spec:\n  containers:\n  - name: istio-proxy\n  volumes:\n  - name: data\n    emptyDir: {}",
    ],
)
def test_whatever_an_overlay_changes_pods_get_what_the_pipeline_gives(overlay: str) -> None:
    volumes: list[dict[str, Any]] = [{"name": "data", "hostPath": {"path": "/x"}}, {"name": "other", "emptyDir": {}}]
    variants: list[dict[str, Any]] = [
        {},
        {"nodeSelector": {"disk": "hdd"}},
        {"volumes": volumes},
        {"volumes": volumes[1:]},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
    ]
    pods = [pod_of(name, **spec) for name in ("web", "cart", "shop-1") for spec in variants for _ in range(2)]

    plans_made(revision_of(overlay), pods)


@pytest.mark.parametrize("expression", ["now | date `2006` | len", "uuidv4 | len", "randAlpha 3 | len"])
def test_a_template_that_asks_the_clock_or_chance_gets_no_plan(expression: str) -> None:
    revision = revision_of(proxy(expression))

    assert (plans_made(revision, [pod_of("web")] * 3), len(plans_of(revision))) == (0, 0)


def test_a_pod_that_was_injected_before_gets_no_plan() -> None:
    revision = revision_of(proxy(".DeploymentMeta.Name"))
    first = inject_pod(revision, pod_of("web"), FACTS)
    assert isinstance(first, Injected)

    assert plans_made(revision, [first.pod] * 3) == 0
