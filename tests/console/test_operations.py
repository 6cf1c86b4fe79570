"""Keys are rotated, backups come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings as product_settings
from django.core.management import call_command
from django.db import models

from accounts.models import AuditEntry
from billing.services.settlement import settle_batch
from console.encryption import ENCRYPTED, rotate_encryption
from ground import clock
from ground.secrets import decrypt
from routing.models import ProviderAccount
from routing.services.provider_accounts import set_provider_account
from tests.billing.kit import settlement, usage
from tests.harness.database import TestServer, manage, replace_database
from tests.harness.world import make_tenant
from webhooks.models import Endpoint
from webhooks.services.endpoints import create_endpoint, rotate_secret


def test_after_a_rotation_the_old_key_may_go(db: None, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tenant = make_tenant()
    endpoint, _ = create_endpoint(tenant.organisation, url="https://hooks.example.com/x")
    _, secret = rotate_secret(tenant.organisation, endpoint.public_id)
    set_provider_account(
        provider="openai", kind="customer", name="ours", base_url="https://x.test", api_key="sk-1", at=clock.now()
    )
    (old,) = settings.ENCRYPTION_KEYS
    new = Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = (new, old)
    call_command("rotate_encryption")
    assert "3 secrets were encrypted anew" in capsys.readouterr().out
    assert rotate_encryption() == 0
    settings.ENCRYPTION_KEYS = (new,)
    endpoint.refresh_from_db()
    assert decrypt(bytes(endpoint.secret)) == secret
    assert decrypt(bytes(ProviderAccount.objects.get().api_key_encrypted)) == "sk-1"
    (entry,) = AuditEntry.objects.filter(action="encryption.rotated")
    assert (entry.actor_name, entry.changes) == ("rotate_encryption", {"rotated_count": [None, 3]})
    settings.ENCRYPTION_KEYS = (Fernet.generate_key().decode(),)
    with pytest.raises(InvalidToken):
        rotate_encryption()


def test_every_secret_that_is_kept_is_rotated() -> None:
    named = {(model, name) for model, names in ENCRYPTED for name in names}
    secret = {
        (model, field.name)
        for model in (ProviderAccount, Endpoint)
        for field in model._meta.get_fields()
        if isinstance(field, models.BinaryField)
    }
    assert named == secret


# What only tests have would else not be the owner's to dump.
HARNESS_IS_THE_OWNERS = """
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT 'ALTER SCHEMA harness OWNER TO lanehouse_owner'
        UNION ALL
        SELECT format('ALTER TABLE harness.%I OWNER TO lanehouse_owner', relname) FROM pg_class
        WHERE relnamespace = 'harness'::regnamespace AND relkind = 'r'
        UNION ALL
        SELECT format('ALTER FUNCTION harness.%I() OWNER TO lanehouse_owner', proname) FROM pg_proc
        WHERE pronamespace = 'harness'::regnamespace
    LOOP
        EXECUTE statement;
    END LOOP;
END $$
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_backup_comes_back_whole_and_proves(
    db: None, test_server: TestServer, superuser_connection: psycopg.Connection, tmp_path: Path
) -> None:
    tenant = make_tenant()
    settle_batch(settlement(tenant.organisation, "batch_1", usage("a", 1_250_000), settled_at=clock.now()))
    blob = Path(product_settings.STATE_DIR) / "blobs" / "files" / "kept"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"a customer's file")
    folder, fresh = tmp_path / "backup", tmp_path / "fresh"
    here = {"LANEHOUSE_STATE_DIR": str(product_settings.STATE_DIR)}
    superuser_connection.execute(HARNESS_IS_THE_OWNERS)
    manage("backup", str(folder), database_url=test_server.owner_dsn, **here)
    superuser_connection.execute("DROP DATABASE IF EXISTS restored WITH (FORCE)")
    superuser_connection.execute("CREATE DATABASE restored OWNER lanehouse_owner TEMPLATE template0")
    there = {
        "database_url": replace_database(test_server.owner_dsn, "restored"),
        "LANEHOUSE_STATE_DIR": str(fresh),
    }
    said = manage("restore", str(folder), **there)
    assert "receipts 1" in said
    assert (fresh / "blobs" / "files" / "kept").read_bytes() == b"a customer's file"
    with psycopg.connect(replace_database(test_server.app_dsn, "restored")) as restored:
        row = restored.execute("SELECT posted_micro_usd FROM billing_customerbalance WHERE posted_micro_usd > 0")
        assert row.fetchall() == [(98_750_000,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            restored.execute("UPDATE billing_ledgerleg SET amount_micro_usd = 0")
    with pytest.raises(RuntimeError, match="not empty"):
        manage("restore", str(folder), **there)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "dump_sha256": "0"}))
    with pytest.raises(RuntimeError, match="damaged"):
        manage("restore", str(folder), **there)
    superuser_connection.execute("DROP DATABASE restored WITH (FORCE)")
