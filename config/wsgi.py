"""The WSGI application that the web server runs."""

import os

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")


class _Request(WSGIRequest):
    """A request whose content type may be any text: Django raises at some before any view, where nothing answers it."""

    def _set_content_type_params(self, meta: dict[str, str]) -> None:
        text = meta.get("CONTENT_TYPE", "")
        try:
            self.content_type, self.content_params = parse_header_parameters(text)
        except ValueError:
            self.content_type, self.content_params = text.partition(";")[0].strip().lower(), {}
        # A charset named there is passed over: all text is UTF-8, and Django would read the address by it.


class _Handler(WSGIHandler):
    request_class = _Request


django.setup(set_prefix=False)
application = _Handler()
