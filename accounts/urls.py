"""Sign-in, sign-out and passwords; the pages of settings, people, API keys and the audit log."""

from django.urls import path

from accounts.views import audit, keys, passwords, settings, staff_keys
from accounts.views.sign_in import SignIn, SignOut

app_name = "accounts"
urlpatterns = [
    path("login", SignIn.as_view(), name="login"),
    path("logout", SignOut.as_view(), name="logout"),
    path("reset/", passwords.forgotten, name="password-forgotten"),
    path("reset/<str:uidb64>/<str:token>/", passwords.ChoosePassword.as_view(), name="password-choose"),
    path("app/settings/", settings.organisation_settings, name="settings"),
    path("app/settings/members/invite/", settings.member_invite, name="member-invite"),
    path("app/settings/members/<str:email>/", settings.member_edit, name="member-edit"),
    path("app/keys/", keys.key_list, name="key-list"),
    path("app/keys/new/", keys.key_new, name="key-new"),
    path("app/keys/<str:key_id>/revoke/", keys.key_revoke, name="key-revoke"),
    path("fin/keys/", staff_keys.staff_key_list, name="staff-key-list"),
    path("fin/keys/new/", staff_keys.staff_key_new, name="staff-key-new"),
    path("fin/keys/<str:key_id>/revoke/", staff_keys.staff_key_revoke, name="staff-key-revoke"),
    path("ops/audit/", audit.staff_log, name="audit"),
    path("ops/audit/csv", audit.staff_log, name="audit-csv"),
    path("fin/audit/", audit.finance_log, name="finance-audit"),
    path("fin/audit/csv", audit.finance_log, name="finance-audit-csv"),
    path("app/settings/audit/", audit.own_log, name="own-audit"),
    path("app/settings/audit/csv", audit.own_log, name="own-audit-csv"),
]
