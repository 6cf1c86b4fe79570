"""The WSGI application as granian serves it: warm before its first request."""

from config.wsgi import application  # isort: skip -- sets Django up, which all that is imported below needs
from config.memory import keep_freed_memory
from config.warm import warm_up

__all__ = ["application"]

keep_freed_memory()
warm_up(application)
