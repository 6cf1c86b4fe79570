"""The WSGI application as granian serves it: warm before its first request."""

from config.wsgi import application  # isort: skip -- sets Django up, which all that is imported below needs
from config.warm import warm_up

__all__ = ["application"]

warm_up(application)
