"""Links in mails with which people choose a password."""

from __future__ import annotations

import logging
from smtplib import SMTPException
from typing import Final

from django.contrib.auth.tokens import default_token_generator
from django.core.mail import send_mail
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from accounts.models import User

_log = logging.getLogger(__name__)
INVITATION: Final = "accounts/mail/invitation.txt"
RESET: Final = "accounts/mail/reset.txt"


def send_password_link(request: HttpRequest, user: User, template: str, **context: object) -> bool:
    """Send a person a link that is good for one change of their password (Django's own token).

    Args:
        request: Where the link leads is told by where this one came to.
        user: Who gets it.
        template: The mail; its first line is the subject.
        context: What the mail says besides.

    Returns:
        Whether the mail server took it; what it said is in the log.
    """
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    path = reverse("accounts:password-choose", args=[uid, default_token_generator.make_token(user)])
    text = render_to_string(template, {"user": user, "url": request.build_absolute_uri(path), **context})
    subject, _, body = text.partition("\n")
    try:
        send_mail(subject, body.lstrip("\n"), None, [user.email])
    except (OSError, SMTPException):
        _log.exception("a mail with a password link was not taken")
        return False
    return True
