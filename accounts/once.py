"""What a view knows of the call's ``Idempotency-Key``: where its work begins.

``config.once`` puts a :class:`OnceCall` on a request that came with a key. Most calls begin by themselves once their
caller is known; a view that reads its own body is marked with :func:`begins_itself` and says when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from django.db import transaction
from django.http import HttpRequest

from accounts.services.kept_calls import CallAnswer, CallClaim, CallOwner, claim_call

_ATTRIBUTE = "lanehouse_once"
_MARK = "begins_once_itself"
View = TypeVar("View", bound=Callable[..., object])


class AnsweredBefore(Exception):
    """The call was answered before: nothing is to be done but to say it again."""

    def __init__(self, answer: CallAnswer) -> None:
        super().__init__()
        self.answer = answer


class OnceCall:
    """One call with a key. Between :meth:`begin` and the end it holds the claim, and most a transaction too."""

    def __init__(self, *, route: str, key: str) -> None:
        self.route = route
        self.key = key
        self.owner: CallOwner | None = None
        self.claim: CallClaim | None = None
        # Holds the transaction in which the work is done and its answer kept.
        self.stack = ExitStack()

    def begin(self, request: HttpRequest, content: bytes, *, is_atomic: bool) -> None:
        """Claim the call.

        Raises:
            AnsweredBefore: It need not be done.
            InProgress: Another process does it.
            InvalidRequest: The key stands for another request.
        """
        assert self.owner is not None, "the caller is known before the work begins"
        address = f"{request.path}\x00{request.META.get('QUERY_STRING', '')}\x00".encode()
        digest = hashlib.sha256(address)
        digest.update(content)
        found = claim_call(self.owner, route=self.route, key=self.key, body_hash=digest.digest())
        if isinstance(found, CallAnswer):
            raise AnsweredBefore(found)
        self.claim = found
        if is_atomic:
            self.stack.enter_context(transaction.atomic())


def once_call_of(request: HttpRequest) -> OnceCall | None:
    """Give the request's call, or None where it came without a key."""
    return getattr(request, _ATTRIBUTE, None)


def note_once_call(request: HttpRequest, call: OnceCall) -> None:
    """Put a call on its request."""
    setattr(request, _ATTRIBUTE, call)


def begin_once(request: HttpRequest, content: bytes, *, is_atomic: bool = True) -> None:
    """Say that the work begins now; without a key nothing happens.

    Args:
        request: The call.
        content: What makes the call the same as another, beside its address.
        is_atomic: Do the work and keep the answer in one transaction; for work that is short.

    Raises:
        AnsweredBefore: It need not be done.
        InProgress: Another process does it.
        InvalidRequest: The key stands for another request.
    """
    call = once_call_of(request)
    if call is not None:
        call.begin(request, content, is_atomic=is_atomic)


def begins_itself(view: View) -> View:
    """Mark a view that reads its own body, and calls :func:`begin_once` when it has."""
    setattr(view, _MARK, True)
    return view


def is_begun_by_view(view: Callable[..., object]) -> bool:
    """Say whether a view was marked so."""
    return getattr(view, _MARK, False)
