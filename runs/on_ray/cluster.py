"""The cluster that cases run on: address, limitations, connection, nodes."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runs.record.manifest import RunError
from serving.backends.backend import installed
from serving.protocol.model_name import ModelName

RAY = "ray"

_LOCAL_STORE_BYTES = 200 << 20
"""Shared memory of a cluster on this machine; messages of less than 100 kB do not use it."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Location of a cluster.

    Attributes:
        address: Host and port of the cluster; empty for the one that this process belongs to, else for a new
            one on this machine.
        workers: Their number; None for one on each node, or one for each processor of a new cluster.
    """

    address: str = ""
    workers: int | None = None


def parse_cluster(text: str, workers: int | None) -> Cluster:
    """Parse `ray[://HOST:PORT]`.

    Raises:
        ValueError: Names the expected form.
    """
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if name != RAY or (separator and not (host and colon and port.isdigit())):
        raise ValueError(f"{text!r} is neither ray nor ray://HOST:PORT")
    return Cluster(address, workers)


def demand_usable(models: Iterable[ModelName]) -> None:
    """Refuse what cannot be spread over machines, before anything is started for it.

    Raises:
        RunError: Ray is not installed, or a model cannot be asked from there.
    """
    state = installed("ray", "-e '.[ray]' in the clone")
    if state != "ready":
        raise RunError(f"--on ray: Ray is {state}")
    for name in models:
        if name.batched:
            raise RunError(
                f"--on ray: model {str(name)!r} answers in batches, which need no workers; leave --on or"
                " batch: out"
            )
        if name.needs_server:
            raise RunError(
                f"--on ray: model {str(name)!r} names no server, and one that this command starts cannot be"
                " reached from other nodes; start it with evigraph serve, and name its address"
            )


def connect(where: Cluster) -> bool:
    """Connect; returns whether this process has started the cluster, which then ends with it.

    Raises:
        RunError: There is none at the address.
    """
    import ray

    # Failures come as exceptions; the rest is for the cluster's operators.
    logging.getLogger("ray").setLevel(logging.ERROR)
    handler = signal.getsignal(signal.SIGTERM)
    address = where.address or os.environ.get("RAY_ADDRESS", "")
    options: dict[str, Any] = {
        "log_to_driver": False,
        "configure_logging": False,
        "logging_level": "ERROR",
    }
    if not address:
        options |= {
            "num_cpus": max(where.workers or 0, os.cpu_count() or 1),
            "object_store_memory": _LOCAL_STORE_BYTES,
            "include_dashboard": False,
        }
    try:
        ray.init(address=address or "local", **options)
    except Exception as error:
        raise RunError(
            f"--on ray: cannot connect to {address or 'a new cluster'}: {' '.join(str(error).split())}; the"
            " address is the head's (port 6379 by default), and a node of the"
            " cluster has to run on this machine"
        ) from None
    finally:
        # Ray would end this process at once, in the middle of a case.
        signal.signal(signal.SIGTERM, handler)
    return not address


def disconnect() -> None:
    """Leave the cluster; one that this process has started ends."""
    import ray

    ray.shutdown()


def live_nodes() -> dict[str, str]:
    """Addresses of the nodes that have processors, by id."""
    import ray

    return {
        node["NodeID"]: node["NodeManagerAddress"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    }


def own_address() -> str:
    """Address of this process's node, which is on its machine."""
    import ray

    return str(ray.util.get_node_ip_address())
