"""The application as uvicorn serves it: warm before its first request."""

from config.wsgi import application as django_application  # isort: skip -- sets Django up, which all below needs
from django.conf import settings

from config.bridge import Bridge
from config.connection import Connection
from config.memory import keep_freed_memory
from config.warm import warm_up

__all__ = ["Connection", "application"]

keep_freed_memory()
warm_up(django_application)
application = Bridge(django_application, thread_count=settings.WEB_THREADS)
