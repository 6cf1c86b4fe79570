"""What the catalog's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

import catalog.data
from accounts.models import StaffRole, User
from catalog.domain.document import CatalogDocument, parse_document
from ground import clock


def _person(role: StaffRole) -> User:
    name = role.label if role else "Customer"
    return User.objects.create_user(
        email=f"{name.lower()}@example.com", name=name, staff_role=role, created_at=clock.now()
    )


@pytest.fixture(scope="session")
def document() -> CatalogDocument:
    return parse_document(Path(catalog.data.__file__).with_name("catalog.json").read_bytes())


@pytest.fixture
def operator(db: None) -> User:
    return _person(StaffRole.OPERATOR)


@pytest.fixture
def support(db: None) -> User:
    return _person(StaffRole.SUPPORT)


@pytest.fixture
def customer(db: None) -> User:
    return _person(StaffRole.NONE)
