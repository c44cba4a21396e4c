"""The pod of `helm test`: what it runs succeeds where every webhook's revision is served, and fails where one is not."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.architecture.serving import free_ports, wait_until_ready
from tests.deploy.rendering import CHART, ROOT, of_kind, one, rendered

SCRIPT = CHART / "files" / "check.py"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """An injector of the revisions that the project ships: the addresses of its operations and its webhook."""
    port, ops_port = free_ports(2)
    command = [sys.executable, "-m", "injector", "serve", "--embedded", "--insecure-http", "--bind", "127.0.0.1"]
    command += ["--port", str(port), "--ops-port", str(ops_port), "--shutdown-delay", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        assert wait_until_ready(f"http://127.0.0.1:{ops_port}/readyz", process)
        yield f"http://127.0.0.1:{ops_port}", f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_it_succeeds_where_every_name_is_served(served: tuple[str, str]) -> None:
    done = checked(*served, "stable", "canary")

    assert (done.returncode, done.stdout) == (0, "ready\nstable: injected\ncanary: injected\n"), done.stderr


def test_it_fails_and_says_which_name_is_not_served(served: tuple[str, str]) -> None:
    done = checked(*served, "stable", "1-99")

    assert done.returncode == 1
    assert "there is no revision or tag '1-99'" in done.stdout
    assert done.stdout.endswith("stable: injected\n1-99: not injected\n")


def test_it_fails_where_nobody_answers() -> None:
    (port,) = free_ports(1)

    assert checked(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}").returncode != 0


def test_the_pod_asks_the_service_for_every_webhook() -> None:
    objects = rendered({"service": {"port": 8443}, "demo": {"enabled": True}})
    paths = {
        webhook["clientConfig"]["service"]["path"].removeprefix("/inject/")
        for configuration in of_kind(objects, "MutatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
    }

    (container,) = one(objects, "Pod")["spec"]["containers"]
    python, flag, script, *arguments = container["command"]

    assert (python, flag, script) == ("python", "-c", SCRIPT.read_text())
    assert arguments[:2] == ["http://injector.injector-system.svc:8080", "https://injector.injector-system.svc:8443"]
    assert set(arguments[2:]) == paths == {"stable", "canary"}
    assert container["image"] == one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]


def test_it_asks_for_no_pod_where_only_the_api_servers_certificate_is_taken() -> None:
    (container,) = one(rendered({"apiServerClient": {"configMap": "ca"}}), "Pod")["spec"]["containers"]

    assert len(container["command"]) == 5
