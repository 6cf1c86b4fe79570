"""Sign-in and sign-out, and the pages of API keys."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from accounts.views import keys
from accounts.views.sign_in import SignIn

app_name = "accounts"
urlpatterns = [
    path("login", SignIn.as_view(), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("app/keys/", keys.key_list, name="key-list"),
    path("app/keys/new/", keys.key_new, name="key-new"),
    path("app/keys/<str:key_id>/revoke/", keys.key_revoke, name="key-revoke"),
]
