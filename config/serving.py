"""The application as uvicorn serves it: warm before its first request."""

from config.wsgi import application as django_application  # isort: skip -- sets Django up, which all below needs
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings

from config.bridge import Bridge
from config.connection import Connection
from config.memory import keep_freed_memory
from config.warm import warm_up

__all__ = ["Connection", "application"]

keep_freed_memory()
# With more than one worker uvicorn imports this on a running event loop, where Django speaks to no database.
with ThreadPoolExecutor(1) as warming:
    warming.submit(warm_up, django_application).result()
application = Bridge(django_application, thread_count=settings.WEB_THREADS)
