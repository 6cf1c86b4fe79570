"""The first pages, the jump box, and what a person set for themselves."""

from django.urls import path

from console.views import customers, docs, jump, overviews, preferences, retention

app_name = "console"
urlpatterns = [
    path("", overviews.home, name="home"),
    path("app/", overviews.customer_page, name="customer-overview"),
    path("ops/", overviews.operator_page, name="operator-overview"),
    path("docs/", docs.docs_page, name="docs"),
    path("docs/<str:name>", docs.docs_page, name="docs-page"),
    path("ops/customers/", customers.customer_list, name="customer-list"),
    path("ops/customers/<str:organisation_id>/", customers.customer_detail, name="customer-detail"),
    path("ops/customers/<str:organisation_id>/limits/", customers.customer_limits, name="customer-limits"),
    path("ops/customers/<str:organisation_id>/block/", customers.customer_block, name="customer-block"),
    path("ops/retention/", retention.retention_page, name="retention"),
    path("fin/", customers.finance_page, name="finance-overview"),
    path("go", jump.go, name="go"),
    path("me/preferences/", preferences.preferences, name="preferences"),
]
