"""How often an address, an account, and an account from an address may try to sign in."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_key_scopes_are_known")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="SignInBucket",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subject", models.BinaryField(max_length=32, unique=True)),
                ("full_at", models.DateTimeField(db_index=True)),
                ("succeeded_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
    ]
