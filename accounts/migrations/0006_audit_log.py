"""The audit log: append-only, whoever writes."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

GUARDS = """
CREATE FUNCTION accounts_stamp_audit() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.at := lanehouse_now();
    RETURN NEW;
END $$;
CREATE FUNCTION accounts_refuse_audit_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% on the audit log is refused: it is append-only', TG_OP
        USING ERRCODE = 'restrict_violation', CONSTRAINT = 'audit_log_is_append_only', TABLE = TG_TABLE_NAME;
END $$;
CREATE TRIGGER audit_entry_is_stamped BEFORE INSERT ON accounts_auditentry
    FOR EACH ROW EXECUTE FUNCTION accounts_stamp_audit();
-- For each statement, not each row: an UPDATE that finds nothing is refused as well.
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON accounts_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION accounts_refuse_audit_change();
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE UPDATE, DELETE, TRUNCATE ON accounts_auditentry FROM lanehouse_app;
    END IF;
END $$;
"""
NO_GUARDS = """
DROP TRIGGER audit_log_is_append_only ON accounts_auditentry;
DROP TRIGGER audit_entry_is_stamped ON accounts_auditentry;
DROP FUNCTION accounts_refuse_audit_change();
DROP FUNCTION accounts_stamp_audit();
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_sign_in_buckets")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("at", models.DateTimeField()),
                (
                    "actor_kind",
                    models.CharField(
                        choices=[("user", "A person"), ("key", "An API key"), ("system", "The system")], max_length=10
                    ),
                ),
                ("actor_name", models.CharField(max_length=120)),
                ("actor_role", models.CharField(max_length=12)),
                ("is_staff", models.BooleanField()),
                ("action", models.CharField(max_length=60)),
                ("object_type", models.CharField(max_length=40)),
                ("object_id", models.CharField(max_length=250)),
                ("changes", models.JSONField(default=dict)),
                ("reason", models.CharField(max_length=500)),
                ("request_id", models.CharField(max_length=64)),
                ("address", models.CharField(max_length=64)),
                (
                    "api_key",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.apikey",
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["organisation", "-id"], name="audit_of_organisation"),
                    models.Index(fields=["object_id", "-id"], name="audit_of_object"),
                    models.Index(fields=["action", "-id"], name="audit_of_action"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("actor_kind", "user"), ("api_key__isnull", True), ("user__isnull", False)),
                            models.Q(("actor_kind", "key"), ("api_key__isnull", False), ("user__isnull", True)),
                            models.Q(("actor_kind", "system"), ("api_key__isnull", True), ("user__isnull", True)),
                            _connector="OR",
                        ),
                        name="audit_entry_names_its_actor",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("action__regex", "^[a-z_]+\\.[a-z_]+$")),
                        name="audit_action_is_a_dotted_word",
                    ),
                ],
            },
        ),
        migrations.RunSQL(GUARDS, NO_GUARDS),
    ]
