"""Ray's actor on a node: a process that checks its code and then becomes a worker.

Each call of `exchange` carries the driver's messages and returns the worker's, once there are any. A Ray
message takes some milliseconds of processor time, whatever its size, so both directions share one.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runs.on_ray.worker import code_sha256
from runs.record.manifest import own_version
from serving.requests.relay import RelayMessage


class Actor:
    """The driver's handle of it. Every method raises one of Ray's exceptions once the worker is lost."""

    def __init__(self, node: str | None) -> None:
        """Ask Ray for a worker, which waits for a processor as long as there is none.

        Without a `node`, Ray chooses one.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy: Any = "SPREAD" if node is None else NodeAffinitySchedulingStrategy(node, soft=False)
        # Ray's additions to the workers' path would let a folder `cases` here shadow the package.
        added = [str(Path.cwd()), str(Path(sys.argv[0]).resolve().parent)]
        options = _class().options(num_cpus=1, max_restarts=0, scheduling_strategy=strategy)
        self._handle = options.remote(added)

    async def begin(self, work: bytes) -> Sequence[RelayMessage]:
        """Get it ready for a pickled `Work`; the first that it has to say."""
        hello = pickle.dumps((own_version(), code_sha256()))
        return _read(await self._handle.begin.remote(hello, work))

    async def exchange(self, messages: Sequence[RelayMessage]) -> Sequence[RelayMessage]:
        """Send messages, if any, and wait for the worker's."""
        return _read(await self._handle.exchange.remote(pickle.dumps(messages)))

    async def take(self, messages: Sequence[RelayMessage]) -> None:
        """Say something while an exchange waits."""
        await self._handle.take.remote(pickle.dumps(messages))

    def kill(self) -> None:
        import ray

        ray.kill(self._handle)


def _read(messages: bytes) -> Sequence[RelayMessage]:
    read: Sequence[RelayMessage] = pickle.loads(messages)  # noqa: S301 - from our own process
    return read


def _class() -> Any:
    """The actor class. It is sent by value, so that a node without this version can report it."""
    import ray

    class EvigraphWorker:
        def __init__(self, added: list[str]) -> None:
            import sys

            for path in added:
                if path in sys.path:
                    sys.path.remove(path)
            self.worker: Any = None

        async def begin(self, hello: bytes, work: bytes) -> bytes:
            import pickle

            import ray

            node = ray.get_runtime_context().get_node_id()
            version, code = pickle.loads(hello)  # noqa: S301 - from our own process
            try:
                from importlib import metadata

                from runs.on_ray.worker import Worker, code_sha256
                from serving.policy.privacy import switch_off_telemetry

                found = metadata.version("evigraph"), code_sha256()
            except Exception as error:
                reason = f"Evigraph {version} is not installed there, or another version is ({error})"
                return pickle.dumps([("refused", reason, node)])
            if found != (version, code):
                what = f"has Evigraph {found[0]}" if found[0] != version else "has other code of this version"
                reason = (
                    f"{what}, and the run {version} (code {found[1][:8]} and {code[:8]}); install the same"
                )
                return pickle.dumps([("refused", reason, node)])
            switch_off_telemetry()
            self.worker = Worker(node)
            first: bytes = await self.worker.begin(work)
            return first

        async def exchange(self, messages: bytes) -> bytes:
            self.worker.take(messages)
            said: bytes = await self.worker.said()
            return said

        async def take(self, messages: bytes) -> None:
            self.worker.take(messages)

    return ray.remote(EvigraphWorker)
