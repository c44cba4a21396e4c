"""Each source module has its test module, where one looks for it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "injector"

BY_CONFORMANCE = "held by tests/conformance and tests/property only; a module of its own is owed"

TESTED_ELSEWHERE: dict[str, str] = {
    "cli/uninject.py": BY_CONFORMANCE,
    "errors.py": BY_CONFORMANCE,
    "injection/append.py": BY_CONFORMANCE,
    "injection/appendspec.py": BY_CONFORMANCE,
    "injection/concurrency.py": BY_CONFORMANCE,
    "injection/data.py": BY_CONFORMANCE,
    "injection/manifest.py": BY_CONFORMANCE,
    "injection/native.py": BY_CONFORMANCE,
    "injection/overrides.py": BY_CONFORMANCE,
    "injection/parameters.py": BY_CONFORMANCE,
    "injection/pipeline.py": BY_CONFORMANCE,
    "injection/policy.py": BY_CONFORMANCE,
    "injection/postprocess.py": BY_CONFORMANCE,
    "injection/probes.py": BY_CONFORMANCE,
    "injection/prometheus.py": BY_CONFORMANCE,
    "injection/render.py": BY_CONFORMANCE,
    "injection/result.py": BY_CONFORMANCE,
    "injection/status.py": BY_CONFORMANCE,
    "injection/uninject.py": BY_CONFORMANCE,
    "istio/addresses.py": BY_CONFORMANCE,
    "istio/annotations.py": BY_CONFORMANCE,
    "istio/config.py": BY_CONFORMANCE,
    "istio/duration.py": BY_CONFORMANCE,
    "istio/functions.py": BY_CONFORMANCE,
    "istio/goview.py": BY_CONFORMANCE,
    "istio/infer.py": BY_CONFORMANCE,
    "istio/jinja.py": BY_CONFORMANCE,
    "istio/jinjadata.py": BY_CONFORMANCE,
    "istio/meshconfig.py": BY_CONFORMANCE,
    "istio/meshdefaults.py": BY_CONFORMANCE,
    "istio/meshfacts.py": BY_CONFORMANCE,
    "istio/otel.py": BY_CONFORMANCE,
    "istio/proto.py": BY_CONFORMANCE,
    "istio/protoschema.py": BY_CONFORMANCE,
    "istio/proxyconfig.py": BY_CONFORMANCE,
    "istio/revision.py": BY_CONFORMANCE,
    "istio/template.py": BY_CONFORMANCE,
    "istio/values.py": BY_CONFORMANCE,
    "cli/serve.py": "run whole by tests/webhook/test_server.py; its flags are owed tests",
    "__main__.py": "one line, run by tests/cli/test_main.py",
}
"""Modules without a test module of their own, and why. An ``__init__`` that defines nothing needs no entry."""


def test_every_source_module_has_a_test_module() -> None:
    missing = [str(path) for path in sources() if str(path) not in TESTED_ELSEWHERE and not home_of(path).exists()]

    assert missing == []


def test_the_exceptions_name_modules_that_exist() -> None:
    assert [name for name in TESTED_ELSEWHERE if not (PACKAGE / name).exists()] == []


def sources() -> list[Path]:
    """The modules that define something, as paths inside the package."""
    return [
        path.relative_to(PACKAGE)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__init__.py" or "def " in path.read_text()
    ]


def home_of(module: Path) -> Path:
    """Where the test module of a source module belongs; a package's own is named after the package."""
    name = module.parent.name if module.name == "__init__.py" else module.stem
    return ROOT / "tests" / module.parent / f"test_{name}.py"
