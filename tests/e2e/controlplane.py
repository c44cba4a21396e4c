"""The programs of a cluster, as processes on 127.0.0.1: etcd and kube-apiserver, and on demand the controllers, a scheduler and KWOK.

The programs are found as envtest finds them: in the folder KUBEBUILDER_ASSETS, in its default folder, or on PATH. ``../shared/kubelab``
builds the same programs, if it is beside the project. Certificates, keys and data are in a folder of the caller's.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization

from tests.architecture.serving import free_ports
from tests.webhook.certificates import Order, authority, ec_key, issue, pem_of

ASSETS: Final = "KUBEBUILDER_ASSETS"
"""The environment variable that names the folder with the programs."""
DEFAULT_ASSETS: Final = Path("/usr/local/kubebuilder/bin")
SERVER: Final = ("etcd", "kube-apiserver", "kubectl")
CONTROLLERS: Final = ("kube-controller-manager",)
SCHEDULER: Final = "kube-scheduler"
NODES: Final = (SCHEDULER, "kwok")
SOURCES: Final = {
    SERVER: "setup-envtest downloads them",
    CONTROLLERS: "it is a download of each Kubernetes release",
    NODES: "they are downloads of each Kubernetes release and KWOK release",
}

KUBELAB: Final = Path(__file__).resolve().parents[3] / "shared" / "kubelab"
BUILT: Final = Path(os.environ.get("KUBELAB", "~/.cache/kubelab")).expanduser() / "bin"
BUILD: Final = "KUBELAB_BUILD"
"""The environment variable that lets a test build what is missing, or wait for who builds it: that takes ten minutes."""
BUILD_LIMIT: Final = 25 * 60.0
"""Seconds after which a build, one's own or another's, has failed."""

UNAVAILABLE: Final = 69
"""The exit status of a long test if a program is missing."""
SERVICES: Final = "127.96.0.0/16"
"""The addresses of Services. They belong to the loopback interface, so a webhook with a fixed address can listen on it."""
FIRST_SERVICE: Final = "127.96.0.1"
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", FIRST_SERVICE)
LIFETIME: Final = 240.0
"""Hours."""
START_LIMIT: Final = 1200.0
"""Seconds until a program must be ready; on an idle machine all are within five."""
STOP_LIMIT: Final = 15.0
"""Seconds until a program that was told to end is killed."""


def missing(*, controllers: bool = False, nodes: bool = False) -> str:
    """Return why a cluster cannot be started; empty if it can."""
    wanted = (SERVER, *([CONTROLLERS] if controllers or nodes else ()), *([NODES] if nodes else ()))
    lacking = [group for group in wanted if not all(map(command_of, group))]
    if lacking and os.environ.get(BUILD) and (KUBELAB / "build.sh").exists() and shutil.which("go"):
        _build()
        lacking = [group for group in wanted if not all(map(command_of, group))]
    if not lacking:
        return ""
    group = lacking[0]
    built = f", or run {KUBELAB / 'build.sh'}" if (KUBELAB / "build.sh").exists() else ""
    return f"the cluster of these tests needs {', '.join(group)}: {SOURCES[group]}; name the folder in {ASSETS}{built}"


def command_of(program: str) -> list[str]:
    """Return the command that runs a program; empty if it is not installed. kubelab has one binary for those of Kubernetes."""
    for folder in _folders():
        if path := shutil.which(program, path=folder):
            return [path]
        if program.startswith("kube-") and (path := shutil.which("kubelab", path=folder)):
            return [path, program]
    return []


def _folders() -> list[str]:
    """Return the folders to look in. A build of kubelab that is not complete does not count."""
    named = [folder] if (folder := os.environ.get(ASSETS)) else []
    built = [str(BUILT)] if (BUILT / "version").exists() else []
    return [*named, *built, str(DEFAULT_ASSETS), *os.get_exec_path()]


def _build() -> None:
    """Build the programs with kubelab; where another process builds them already, wait until that is done.

    Raises:
        subprocess.SubprocessError: it cannot be built, or not in time. It was asked for, so that is no reason to skip.
    """
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    lock = BUILT.parent / "build.lock"
    subprocess.run(["flock", lock, "nice", KUBELAB / "build.sh"], check=True, timeout=BUILD_LIMIT)


class ControlPlane:
    """The processes of a cluster. Its folder keeps the certificates, the data and the logs while they do not run."""

    def __init__(
        self, home: Path, *, controllers: bool, nodes: int, flags: str, environment: Mapping[str, str]
    ) -> None:
        self.home = home
        self.kubeconfig = home / "admin.kubeconfig"
        self._controllers, self._nodes, self._flags = controllers or nodes > 0, nodes, flags
        self._environment = {**os.environ, **environment}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._port, etcd, self._etcd_peer, *self._others = map(str, free_ports(6))
        self.url, self.etcd = f"https://127.0.0.1:{self._port}", f"http://127.0.0.1:{etcd}"
        (home / "logs").mkdir(parents=True)
        (home / "pki").mkdir(mode=0o700)
        (home / "bin").mkdir()
        (home / "bin" / "kubectl").symlink_to(command_of("kubectl")[0])
        self._write_keys()
        self.tls = ssl.create_default_context(cafile=self._key("ca.crt"))
        self.tls.load_cert_chain(self._key("admin.crt"), self._key("admin.key"))

    def _key(self, name: str) -> str:
        return str(self.home / "pki" / name)

    def _write_keys(self) -> None:
        """Write the certificates, the keys of service accounts, and the administrator's kubeconfig."""
        signer = authority("ca")
        issued = {
            "ca": signer,
            "apiserver": issue(Order(NAMES, until=LIFETIME, common_name="kube-apiserver"), signer),
            "admin": issue(Order((), until=LIFETIME, common_name="admin", organization="system:masters"), signer),
        }
        files: dict[str, bytes] = {}
        for name, certificate in issued.items():
            files |= {f"{name}.crt": certificate.chain_pem, f"{name}.key": certificate.key_pem}
        accounts = ec_key()
        files["accounts.key"] = pem_of(accounts, serialization.NoEncryption())
        files["accounts.pub"] = accounts.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        for name, content in files.items():
            Path(self._key(name)).write_bytes(content)
        self.kubeconfig.touch(mode=0o600)
        text = {name: base64.b64encode(content).decode() for name, content in files.items()}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "cluster", "cluster": {"server": self.url, "certificate-authority-data": text["ca.crt"]}}
            ],
            "users": [
                {
                    "name": "admin",
                    "user": {"client-certificate-data": text["admin.crt"], "client-key-data": text["admin.key"]},
                }
            ],
            "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "admin"}}],
            "current-context": "cluster",
        }
        self.kubeconfig.write_text(json.dumps(config))

    def start(self) -> None:
        """Start the processes, and wait until each does its work.

        Raises:
            AssertionError: one of them ended, or is not ready in time.
        """
        peer = f"http://127.0.0.1:{self._etcd_peer}"
        self._run(
            "etcd",
            *("--name=cluster", f"--data-dir={self.home / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
            *(f"--listen-client-urls={self.etcd}", f"--advertise-client-urls={self.etcd}"),
            *(
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=cluster={peer}",
            ),
            f"--quota-backend-bytes={4 << 30}",
        )
        self._wait("etcd", lambda: self._says_ok(f"{self.etcd}/health"))
        self._run(
            "kube-apiserver",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self._port}"),
            *(
                f"--etcd-servers={self.etcd}",
                "--endpoint-reconciler-type=none",
                f"--service-cluster-ip-range={SERVICES}",
            ),
            *(f"--tls-cert-file={self._key('apiserver.crt')}", f"--tls-private-key-file={self._key('apiserver.key')}"),
            *(f"--client-ca-file={self._key('ca.crt')}", "--authorization-mode=RBAC", "--allow-privileged=true"),
            *(f"--service-account-issuer={ISSUER}", f"--service-account-key-file={self._key('accounts.pub')}"),
            f"--service-account-signing-key-file={self._key('accounts.key')}",
            *self._flags.split(),
        )
        self._wait("kube-apiserver", lambda: self._says_ok(f"{self.url}/readyz"))
        if self._controllers:
            self._start_controllers()
        if self._nodes:
            self._start_nodes()

    def _start_controllers(self) -> None:
        """Start the controllers. Pods need the default service account, which one of them makes."""
        self._run(
            "kube-controller-manager",
            *("--bind-address=127.0.0.1", f"--secure-port={self._others[0]}", f"--kubeconfig={self.kubeconfig}"),
            *("--leader-elect=false", "--use-service-account-credentials=true"),
            *("--kube-api-qps=200", "--kube-api-burst=400"),
            *(
                f"--service-account-private-key-file={self._key('accounts.key')}",
                f"--root-ca-file={self._key('ca.crt')}",
            ),
        )
        account = f"{self.url}/api/v1/namespaces/default/serviceaccounts/default"
        self._wait("kube-controller-manager", lambda: self._says_ok(account))

    def _start_nodes(self) -> None:
        """Start a scheduler, and KWOK in the place of the kubelets; create the nodes."""
        self._start_scheduler()
        self._run(
            "kwok",
            *(f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=true", "--node-lease-duration-seconds=40"),
            f"--server-address=127.0.0.1:{self._others[2]}",
        )
        there = {node["metadata"]["name"] for node in self._nodes_there()}
        for name in (f"node-{number}" for number in range(1, self._nodes + 1)):
            if name not in there:
                self._ask(f"{self.url}/api/v1/nodes", _node(name))
        self._wait("kwok", lambda: all(map(_is_ready, self._nodes_there())))

    def _start_scheduler(self) -> None:
        self._run(
            SCHEDULER,
            *("--bind-address=127.0.0.1", f"--secure-port={self._others[1]}", f"--kubeconfig={self.kubeconfig}"),
            *("--leader-elect=false", "--kube-api-qps=400", "--kube-api-burst=800"),
        )

    @contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """Stop the scheduler, if there is one, while the block runs."""
        scheduler = self._processes.pop(SCHEDULER, None)
        if scheduler is not None:
            scheduler.kill()
            scheduler.wait()
        yield
        if scheduler is not None:
            self._start_scheduler()

    def _nodes_there(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = json.loads(self._ask(f"{self.url}/api/v1/nodes"))["items"]
        return nodes

    def stop(self) -> None:
        """End the processes in the order of their dependence, so that all that was written is kept."""
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def end(self) -> None:
        """End the processes at once, and remove everything, the keys above all."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        shutil.rmtree(self.home)

    def _run(self, program: str, *arguments: str) -> None:
        """Start a program. Ctrl-C does not reach it, since a test may need it until it has ended; the end of the tests does."""
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with (self.home / "logs" / program).open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [*guard, *command_of(program), *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, program: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_LIMIT
        while not is_ready():
            exited = [name for name, process in self._processes.items() if process.poll() is not None]
            name = exited[0] if exited else program
            assert not exited, f"{name} ended: {self._tail(name)}"
            assert time.monotonic() < deadline, f"{name} is not ready after {START_LIMIT:g} s: {self._tail(name)}"
            time.sleep(0.1)

    def _tail(self, program: str) -> str:
        return (self.home / "logs" / program).read_text(errors="replace")[-3000:]

    def _says_ok(self, url: str) -> bool:
        try:
            self._ask(url)
        except OSError:
            return False
        return True

    def _ask(self, url: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 -- loopback
        context = self.tls if url.startswith("https") else None
        with urllib.request.urlopen(request, context=context, timeout=START_LIMIT) as answer:  # noqa: S310 -- loopback
            content: bytes = answer.read()
            return content


def _node(name: str) -> dict[str, Any]:
    """Return a node with room for every pod of a test."""
    room = {"cpu": "1000", "memory": "4Ti", "pods": "10000"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": room, "capacity": room},
    }


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
