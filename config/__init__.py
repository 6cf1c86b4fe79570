"""Configuration: settings, environment readers, URLs, the one NinjaAPI, Celery, WSGI, supervisor, system checks.

Always holds: nothing but this package reads the environment.
"""
