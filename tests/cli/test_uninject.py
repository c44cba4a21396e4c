from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from injector.cli import main
from tests.factories import make_container, make_pod

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

STATUS = "sidecar.istio.io/status"
NOTED = json.dumps({"initContainers": ["istio-init"], "containers": ["istio-proxy"], "volumes": ["istio-envoy"]})
SERVICE = "# kept as it is\napiVersion: v1\nkind:   Service\nmetadata: {name: hello}\n"


def injected_pod(name: str = "hello") -> dict[str, Any]:
    """A pod as an injection left it."""
    return make_pod(
        name,
        annotations={STATUS: NOTED},
        containers=[make_container(), make_container("istio-proxy")],
        initContainers=[make_container("istio-init")],
        volumes=[{"name": "istio-envoy", "emptyDir": {}}],
    )


def workload(pod: dict[str, Any]) -> dict[str, Any]:
    """A Deployment of pods like ``pod``."""
    template = {"metadata": {"annotations": pod["metadata"].get("annotations", {})}, "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "hello"},
        "spec": {"template": template},
    }


def uninject(*arguments: str, text: str | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["uninject", *arguments], input=text)


def printed(result: Result) -> list[Any]:
    """The documents that it printed."""
    assert (result.exit_code, result.stderr) == (0, "")
    return [each for each in yaml.safe_load_all(result.stdout) if each is not None]


def test_a_pod_gets_back_what_it_was() -> None:
    assert printed(uninject("-", text=yaml.safe_dump(injected_pod()))) == [make_pod()]


def test_a_workload_loses_its_proxy(tmp_path: Path) -> None:
    (tmp_path / "hello.yaml").write_text(yaml.safe_dump(workload(injected_pod())))

    (found,) = printed(uninject("-f", str(tmp_path / "hello.yaml")))

    assert found["spec"]["template"]["spec"] == make_pod()["spec"]


def test_what_was_never_injected_and_other_kinds_stay() -> None:
    result = uninject("-", text=f"{SERVICE}---\n{yaml.safe_dump(make_pod())}")

    assert result.stdout.startswith(f"{SERVICE}---\n")
    assert printed(result) == [yaml.safe_load(SERVICE), make_pod()]


def test_the_items_of_a_list_are_uninjected_in_place() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(SERVICE), injected_pod()]}

    assert printed(uninject("-", text=json.dumps(listed))) == [
        {**listed, "items": [yaml.safe_load(SERVICE), make_pod()]}
    ]


def test_several_files_are_one_stream_in_their_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(injected_pod(name)))

    found = printed(uninject("-f", str(tmp_path / "b.yaml"), str(tmp_path / "a.yaml")))

    assert found == [make_pod("b"), make_pod("a")]


def test_the_output_is_a_file_as_with_istioctl(tmp_path: Path) -> None:
    result = uninject("-", "-o", str(tmp_path / "out.yaml"), text=yaml.safe_dump(injected_pod()))

    assert (result.exit_code, result.output) == (0, "")
    assert next(yaml.safe_load_all((tmp_path / "out.yaml").read_text())) == make_pod()


def test_the_output_is_json_where_that_is_asked_for() -> None:
    result = uninject("-", "-o", "json", text=yaml.safe_dump(injected_pod()))

    assert json.loads(result.stdout) == make_pod()


def test_a_patch_removes_what_was_added() -> None:
    result = uninject("-", "-o", "patch", text=yaml.safe_dump(injected_pod()))

    (line,) = result.stdout.splitlines()
    assert {(each["op"], each["path"]) for each in json.loads(line)} == {
        ("remove", "/metadata/annotations"),
        ("remove", "/spec/containers/1"),
        ("remove", "/spec/initContainers"),
        ("remove", "/spec/volumes"),
    }


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 64, "no file was named; give -f FILE"),
        (["-f", "-", "-f", "-"], 64, "-f -: stdin can be read only once; name it once"),
        (["-", "--revision", "stable"], 64, "No such option '--revision'"),
        (["-", "-o", "xml", "--output-file", "x"], 64, "-o: 'xml' is no format, and --output-file names a file"),
        (["-f", "nope.yaml"], 65, "nope.yaml: cannot be read: No such file or directory; check the path"),
        (["-f", "broken.yaml"], 65, "broken.yaml: yaml: line 2: "),
        (
            ["-f", "odd.yaml"],
            65,
            "odd.yaml:2: Deployment odd: spec.template is missing; give the workload its pod template",
        ),
        (
            ["-f", "env.yaml"],
            65,
            "env.yaml:1: Pod hello: istio-proxy: the proxy's variable ISTIO_KUBE_APP_PROBERS is no",
        ),
        (["-f", "good.yaml", "-o", "nope/out.yaml"], 1, "nope/out.yaml: cannot be written"),
    ],
)
def test_bad_input_is_one_line_with_the_place_and_what_to_do_and_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.yaml").write_text("kind: Pod\n\ta: b\n")
    (tmp_path / "odd.yaml").write_text(f"---\n{yaml.safe_dump({'kind': 'Deployment', 'metadata': {'name': 'odd'}})}")
    proxy = make_container("istio-proxy", env=[{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{"}])
    (tmp_path / "env.yaml").write_text(yaml.safe_dump(make_pod(containers=[make_container(), proxy])))
    (tmp_path / "good.yaml").write_text(yaml.safe_dump(make_pod()))

    result = uninject(*arguments, text="")

    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert says in result.stderr


def test_nothing_is_written_when_one_document_of_many_is_bad(tmp_path: Path) -> None:
    (tmp_path / "out.yaml").write_text("before")
    text = f"{yaml.safe_dump(injected_pod())}---\nkind: Deployment\n"

    result = uninject("-", "-o", str(tmp_path / "out.yaml"), text=text)

    assert (result.exit_code, (tmp_path / "out.yaml").read_text()) == (65, "before")


def test_it_takes_back_what_kube_inject_did_with_the_embedded_default() -> None:
    before = yaml.safe_dump(make_pod(labels={"app": "hello"}))

    injected = CliRunner().invoke(main, ["kube-inject", "-"], input=before)

    assert "name: istio-proxy" in injected.stdout
    (found,) = printed(uninject("-", text=injected.stdout))
    assert found["spec"] == {"containers": [make_container(resources={})]}
    assert found["metadata"]["labels"] == {"app": "hello"}
    assert "annotations" not in found["metadata"]
