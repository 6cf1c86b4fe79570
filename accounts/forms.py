"""Sign-in."""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """E-mail and password; the answer to a wrong pair never says which half was wrong."""

    error_messages = {  # noqa: RUF012 -- Django declares it on the instance
        "invalid_login": "The e-mail or the password is not right.",
        "inactive": "The e-mail or the password is not right.",
    }
