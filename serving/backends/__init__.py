"""One file a kind of backend; `connect` turns a model name into one that is ready to be asked."""

from serving.backends.backend import Backend, CallParameters
from serving.backends.connect import connect

__all__ = ("Backend", "CallParameters", "connect")
