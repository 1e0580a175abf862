"""The same contexts as the nodes' tests."""

from tests.nodes.conftest import bench, pool

__all__ = ("bench", "pool")
