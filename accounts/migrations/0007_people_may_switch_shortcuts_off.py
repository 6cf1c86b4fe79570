"""People may switch the pages' single keys off (WCAG 2.1.4); until now everybody had them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0006_audit_log")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField("user", "shortcuts_off", models.BooleanField(default=False)),
    ]
