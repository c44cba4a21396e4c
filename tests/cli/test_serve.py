"""``injector serve`` as a command: flags, start, errors and its end."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from injector.cli import main
from injector.cli.serve import option_of, serve
from injector.cli.serve.server import _health_file, source_of, watched_paths
from injector.errors import ConfigError, InjectorError, UsageError
from injector.revisions.directory import EMBEDDED, read_directory, read_single
from injector.revisions.source import SourceState
from injector.settings import SETTINGS, Setting, Settings
from injector.webhook.lifecycle import Follow, HealthFile
from injector.webhook.server import ListenOptions, Server
from tests.cases import cases
from tests.cli.clusters import assert_fails, invoke
from tests.cluster.fakes import kubeconfig_of
from tests.revisions.fakes import CONFIG, VALUES, make_raw, write_revision
from tests.webhook.certificates import Order, issue, write_certificate

PLAIN = ("--insecure-http", "--port", "0")
LOGGERS = ("injector.cli.serve.server", "injector.revisions.following")


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a port for operations that is in use, so that a server which comes as far as listening fails."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = str(listening.getsockname()[1])
        monkeypatch.setenv("INJECTOR_BIND", "127.0.0.1")
        monkeypatch.setenv("INJECTOR_OPS_PORT", port)
        yield port


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with the files of one revision."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "values").write_text(VALUES)
    return tmp_path


run = partial(invoke, "serve")


def parsed(*arguments: str) -> dict[str, Any]:
    """Return the parsed options without running the command."""
    # The command keeps the help option of its first context, so that must have the settings of the group.
    return serve.make_context("serve", list(arguments), parent=click.Context(main, **main.context_settings)).params


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """Return the messages of the command at a level."""
    return [record.getMessage() for record in caplog.records if record.name in LOGGERS and record.levelno == level]


def test_without_flags_and_variables_it_has_the_defaults_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)

    assert Settings(**parsed()) == Settings()


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        (["--bind", "::1"], "bind", "::1"),
        (["--port", "1"], "port", 1),
        (["--ops-port", "0"], "ops_port", 0),
        (["--insecure-http"], "insecure_http", True),
        (["--tlsCertFile", "c"], "tls_cert_file", Path("c")),
        (["--tls-key-file", "k"], "tls_key_file", Path("k")),
        (["--injectConfig", "c"], "inject_config", Path("c")),
        (["--injectConfigFile", "c"], "inject_config", Path("c")),
        (["--valuesConfig", "v"], "values_file", Path("v")),
        (["--injectValues", "v"], "values_file", Path("v")),
        (["--monitoringPort", "1"], "ops_port", 1),
        (["--reconcileWebhookConfig=false"], "patch_webhooks", False),
        (["--mesh-config", "m"], "mesh_config", Path("m")),
        (["-r", "canary"], "revision", "canary"),
        (["--set-env", "A=1", "--setEnv", "B=2"], "set_env", ("A=1", "B=2")),
        (["--node-version", "v1.33.0"], "node_version", ("v1.33.0",)),
        (["--from-cluster"], "from_cluster", True),
        (["--istio-namespace", "mesh"], "istio_namespace", ("mesh",)),
        (["--istioNamespace", "a", "--istioNamespace", "b"], "istio_namespace", ("a", "b")),
        (["--kubeconfig", "k"], "kubeconfig", Path("k")),
        (["--watch-unserved"], "watch_unserved", True),
        (["--watch-drift"], "watch_drift", True),
        (["--served-elsewhere", "1-18", "--servedElsewhere", "old"], "served_elsewhere", ("1-18", "old")),
        (["--explain", "both"], "explain", "both"),
        (["--reload-interval", "1m"], "reload_interval", 60.0),
        (["--reloadInterval", "0"], "reload_interval", 0.0),
        (["--shutdown-delay", "1m30s"], "shutdown_delay", 90.0),
        (["--tls-reload-interval", "10s"], "tls_reload_interval", 10.0),
        (["--tls-mode", "self-signed"], "tls_mode", "self-signed"),
        (["--ca-secret", "s"], "ca_secret", "s"),
        (["--service", "s"], "service", "s"),
        (["--namespace", "n"], "namespace", "n"),
        (["--webhookConfigName", "w"], "webhook_config_name", "w"),
        (["--webhookName", "w"], "webhook_name", "w"),
        (["--client-ca-file", "c"], "client_ca_file", Path("c")),
        (["--client-name", "a", "--clientName", "b"], "client_name", ("a", "b")),
        (["--healthCheckInterval", "250ms"], "health_check_interval", 0.25),
    ],
)
def test_a_flag_sets_one_setting(arguments: list[str], name: str, expected: object) -> None:
    assert parsed(*arguments) == {**parsed(), name: expected}


def test_a_flag_wins_over_its_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INJECTOR_WEBHOOK_PORT", "15017")
    monkeypatch.setenv("INJECTOR_SHUTDOWN_DELAY", "2s")
    monkeypatch.setenv("INJECTOR_SET_ENV", "A=1 B=2")

    values = parsed("--port", "8443")

    assert (values["port"], values["shutdown_delay"], values["set_env"]) == (8443, 2.0, ("A=1", "B=2"))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_an_option_is_its_setting(setting: Setting) -> None:
    option = option_of(setting)

    assert (option.name, option.opts, option.envvar, option.help) == (
        setting.name,
        list(setting.flags),
        setting.variable,
        setting.summary,
    )


@cases("arguments", "expected")
def test_the_patch_webhooks_switch_has_three_states(arguments: list[str], expected: bool | None) -> None:
    assert parsed(*arguments)["patch_webhooks"] is expected


def test_the_embedded_examples_are_served_on_request() -> None:
    assert source_of(Settings(embedded=True))() == read_directory(EMBEDDED)


@pytest.mark.parametrize(
    "arguments", [(), PLAIN, ("--tls-mode", "self-signed"), ("--port=0", "--reload-interval", "1s")]
)
def test_without_a_source_of_revisions_it_ends_with_78(arguments: tuple[str, ...]) -> None:
    assert_fails(
        run(*arguments), 78, "no source of revisions is configured; give --injectConfig FILE, --revisions-dir DIR"
    )


@pytest.mark.parametrize("name", ["REVISIONS_DIR", "INJECT_CONFIG", "VALUES_FILE", "CLIENT_CA_FILE"])
def test_an_empty_variable_of_a_file_ends_with_78(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"INJECTOR_{name}", "")

    assert_fails(
        run(*PLAIN, "--from-cluster"), 78, f"INJECTOR_{name}: the variable is empty; set it to a path, or unset it"
    )


def test_an_empty_path_is_a_wrong_flag() -> None:
    assert_fails(run(*PLAIN, "--revisions-dir", ""), 64, "the name is empty; check the variable that it comes from")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"values_file": Path("v"), "mesh_config": Path("m"), "revision": "canary"}, {"name": "canary"}),
        ({"istio_version": "1.5"}, {"settings": {"istioVersion": "1.5"}}),
        ({"set_env": ("A=1", "B=2")}, {"settings": {"env": {"A": "1", "B": "2"}}}),
        ({"node_version": ("v1.33.0",)}, {"settings": {"nodeVersions": ["v1.33.0"]}}),
    ],
)
def test_one_config_is_a_source_with_what_flags_say_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "cvm":
        Path(name).write_text(name)
    files = [path for path in (settings.get("values_file"), settings.get("mesh_config")) if path]

    state = source_of(Settings(inject_config=Path("c"), **settings))()

    assert state == read_single(Path("c"), *files, **expected)


@pytest.mark.parametrize(
    ("source", "names"), [("", ["b"]), ("revisions_dir", ["a", "b"]), ("inject_config", ["default", "b"])]
)
def test_files_take_precedence_over_the_cluster(tmp_path: Path, source: str, names: list[str]) -> None:
    config = write_revision(tmp_path / "a") / "config"
    flags: dict[str, Any] = {source: config if source == "inject_config" else tmp_path} if source else {}
    settings = Settings(**flags)
    cluster = SourceState((make_raw("b"),))

    def broken() -> SourceState:
        raise ConfigError("gone")

    assert [raw.name for raw in source_of(settings, lambda: cluster)().revisions] == names
    with pytest.raises(ConfigError, match="gone"):
        source_of(settings, broken)()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ()),
        ({"revisions_dir": Path("r")}, (Path("r"),)),
        ({"inject_config": Path("config")}, (Path("config"),)),
        (
            {"inject_config": Path("c/config"), "values_file": Path("c/values"), "mesh_config": Path("m/mesh")},
            (Path("c/config"), Path("c/values"), Path("m/mesh")),
        ),
    ],
)
def test_the_files_and_folders_of_the_configuration_are_watched(
    settings: dict[str, Any], expected: tuple[Path, ...]
) -> None:
    assert watched_paths(Settings(**settings)) == expected


def test_an_invalid_pair_in_a_variable_is_refused_with_the_flag() -> None:
    with pytest.raises(UsageError, match="--set-env: 'A' is not NAME=VALUE"):
        source_of(Settings(inject_config=Path("c"), set_env=("A",)))


@cases("arguments", "says")
def test_a_wrong_flag_is_one_line_and_64(files: Path, arguments: list[str], says: str) -> None:
    del files

    assert_fails(run(*arguments), 64, says)


@cases("arguments", "says")
def test_a_configuration_that_serves_nothing_is_one_line_and_65(files: Path, arguments: list[str], says: str) -> None:
    (files / "broken").write_text("templates: {sidecar: '{{ .x'}")
    (files / "mesh").write_text("defaultConfig: [")
    (files / "empty").mkdir()
    (files / "bad" / "a").mkdir(parents=True)

    assert_fails(run(*PLAIN, *arguments), 65, says)


@cases("certificate", "key", "says")
def test_a_certificate_that_cannot_be_used_is_one_line_and_65(
    files: Path, certificate: str, key: str, says: str
) -> None:
    write_certificate(files)
    write_certificate(files, "other")
    issue(Order(until=-0.5)).write(files, "old")

    assert_fails(run("--embedded", "--tlsCertFile", certificate, "--tlsKeyFile", key), 65, says)


@cases("arguments", "code", "says")
def test_missing_cluster_credentials_are_one_line_and_a_code(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    del files
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert_fails(run(*PLAIN, "--ops-port", "0", *arguments), code, says)


def test_a_ca_that_did_not_sign_the_certificate_is_one_line_and_65(files: Path) -> None:
    write_certificate(files)
    write_certificate(files, "other")

    result = run("--embedded", "--tlsCertFile", "tls.crt", "--tlsKeyFile", "tls.key", "--caCertFile", "other.crt")

    assert_fails(result, 65, "error: other.crt: it did not sign the certificate of tls.crt; ")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"health_check_file": Path("f"), "health_check_interval": 2.0}, HealthFile(Path("f"), 2.0)),
        ({"health_check_file": Path("f")}, None),
        ({"health_check_interval": 2.0}, None),
    ],
)
def test_the_health_file_needs_both_flags(settings: dict[str, Any], expected: HealthFile | None) -> None:
    assert _health_file(Settings(**settings)) == expected


def test_unserved_names_are_watched_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(kubeconfig_of("http://127.0.0.1:1"))
    cluster = ("--kubeconfig", str(tmp_path / "config"))
    served: list[tuple[Server, Mapping[str, Follow]]] = []

    async def fake_serve(
        server: Server, _listen: ListenOptions, *, on_start: object, follow: Mapping[str, Follow]
    ) -> None:
        del on_start
        served.append((server, follow))

    monkeypatch.setattr(Server, "serve", fake_serve)
    for arguments in (("--watch-unserved", "--served-elsewhere", "1-18", *cluster), ()):
        assert run(*PLAIN, "--embedded", *arguments).exit_code == 0

    (watching, tasks), (plain, no_tasks) = served
    assert (plain.unserved, dict(no_tasks)) == (None, {})
    assert watching.unserved is not None
    assert (tasks, watching.unserved.registry) == ({"unserved": watching.unserved.follow}, watching.handler.registry)
    assert watching.unserved.served == {*watching.handler.registry.snapshot.names, "1-18"}


def test_a_port_that_is_taken_is_one_line_and_1(taken: str) -> None:
    assert_fails(run(*PLAIN, "--embedded"), 1, f"error: 127.0.0.1:{taken}: cannot listen: ")


def test_the_log_names_the_revisions(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    run(*PLAIN, "--injectConfig", "config", "--valuesFile", "values")

    (line,) = messages(caplog, logging.INFO)
    assert line.startswith("revision default: Istio 1.24 (values.global.tag is 1.24.6), go, fingerprint ")
    assert line.endswith(", from config")
    assert messages(caplog, logging.ERROR) == []
    assert sorted(path.name for path in files.iterdir()) == ["config", "values"]


def test_a_broken_revision_does_not_stop_others(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, text in (("good", CONFIG), ("broken", "templates: {sidecar: '{{ .x'}")):
        write_revision(files / "all" / name, text)
    (files / "all" / "good" / "values").write_text(VALUES)
    caplog.set_level(logging.INFO)

    result = run(*PLAIN, "--revisions-dir", "all")

    assert result.exit_code == 1
    (error,) = messages(caplog, logging.ERROR)
    assert error.startswith("not served: all/broken: config: template: sidecar:1: ")
    (served,) = messages(caplog, logging.INFO)
    assert served.startswith("revision good: Istio 1.24 ")


def test_a_flag_without_effect_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    run(*PLAIN, "--embedded", "--webhookName", "sidecar-injector.istio.io")

    assert messages(caplog, logging.WARNING) == ["--webhook-name has no effect: it requires --webhookConfigName"]


def test_verbose_shows_the_traceback_before_the_line() -> None:
    lines = run("-v", *PLAIN, "--injectConfig", "nope").stderr.splitlines()

    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "error: nope: there is no such file; check the path"


LIMIT = 300.0
# Signals arrive from the moment that the command line is imported until the server serves, and after that.
COMMAND = """
import os, signal, sys, threading, time

def hang_up():
    while True:
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.01)

sys.argv[1:] = ["serve", "--embedded", "--insecure-http", "--bind", "127.0.0.1", "--port", "0", "--ops-port", "0"]
import injector.cli
threading.Thread(target=hang_up, daemon=True).start()
from injector.cli import main
main(prog_name="injector")
"""


def test_signals_at_any_moment_do_not_end_a_server() -> None:
    with subprocess.Popen([sys.executable, "-c", COMMAND], stderr=subprocess.PIPE, env=dict(os.environ)) as server:
        assert server.stderr is not None
        lines = []
        deadline = time.monotonic() + LIMIT
        for line in server.stderr:
            lines.append(line)
            if b"nothing changed" in line or time.monotonic() > deadline:
                break
        status = server.poll()
        server.kill()

    assert status is None, lines
    assert any(b"serving the webhook" in line for line in lines)


BLOCKED = """
import pathlib, sys, threading
from injector.revisions import directory, files

files.READ_TIMEOUT = 0.2
read = directory.read_folder

def read_folder(folder):
    if pathlib.Path("hangs").exists():
        threading.Event().wait()  # as a read from a mount without its server
    return read(folder)

directory.read_folder = read_folder
flags = ["--revisions-dir", "revisions", "--insecure-http", "--bind", "127.0.0.1", "--port", "0", "--ops-port", "0"]
sys.argv[1:] = ["serve", "--shutdown-delay", "0s", *flags]
from injector.cli import main
main(prog_name="injector")
"""


def test_a_read_that_hangs_is_logged_and_does_not_keep_a_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(EMBEDDED.parent))
    write_revision(tmp_path / "revisions" / "a", values=VALUES)

    with subprocess.Popen([sys.executable, "-c", BLOCKED], stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        timer = threading.Timer(LIMIT, server.kill)
        timer.start()
        try:
            lines = []
            for line in server.stderr:
                lines.append(line)
                if b"serving the webhook" in line:
                    (tmp_path / "hangs").touch()
                    server.send_signal(signal.SIGHUP)
                if b"cannot be read within" in line:
                    server.send_signal(signal.SIGTERM)
            assert server.wait() == 0, lines
        finally:
            timer.cancel()
            server.kill()


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero"])
@pytest.mark.parametrize("file", ["a/mesh", "a/config", "a/revision.yaml", "tags.yaml", "proxyconfigs.yaml"])
def test_a_file_of_the_configuration_that_never_ends_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_revision(tmp_path / "a", values=VALUES)
    (tmp_path / file).unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(tmp_path / file)
    else:
        (tmp_path / file).symlink_to(kind)

    try:
        state = read_directory(tmp_path)
        error: InjectorError | None = state.tags_error or state.failures["a"]
    except ConfigError as unusable:
        error = unusable

    assert f"{file}: is not a regular file; write a file, or a link to one" in str(error)


def test_a_server_that_is_told_to_end_while_it_starts_drains_and_exits_with_0() -> None:
    """The kernel ignores a signal without a handler that is sent to the first process of a container."""
    command = COMMAND.replace("while True:", "for _ in range(1):").replace("SIGHUP", "SIGTERM")
    command = command.replace('"serve",', '"serve", "--shutdown-delay", "0s",')

    process = subprocess.run([sys.executable, "-c", command], stderr=subprocess.PIPE, check=False, timeout=LIMIT)

    assert (process.returncode, b"drained" in process.stderr) == (0, True), process.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_waits_for_a_plugin_and_the_plugin(tmp_path: Path, number: signal.Signals) -> None:
    write_revision(tmp_path / "revisions" / "a", values=VALUES)
    os.mkfifo(tmp_path / "pids")
    script = f"sleep 1000 & echo $$ $! > {tmp_path / 'pids'}; wait"
    config = json.loads(kubeconfig_of("http://127.0.0.1:1"))
    version = "client.authentication.k8s.io/v1"
    config["users"][0]["user"] = {"exec": {"apiVersion": version, "command": "sh", "args": ["-c", script]}}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    flags = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--from-cluster", *PLAIN, "--ops-port", "0")

    with subprocess.Popen([sys.executable, "-m", "injector", "serve", *flags], stderr=subprocess.PIPE) as server:
        timer = threading.Timer(40.0, server.kill)
        timer.start()
        try:
            pids = list(map(int, (tmp_path / "pids").read_text().split()))
            server.send_signal(number)
            assert server.wait() == 0, server.stderr and server.stderr.read()
        finally:
            timer.cancel()
            server.kill()

    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(map(_runs, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
