"""Addresses of the customers' pages of money."""

from django.urls import path

from billing.views import receipts, usage, wallet

app_name = "billing"
urlpatterns = [
    path("app/receipts/", receipts.receipt_list, name="receipt-list"),
    path("app/receipts/<str:receipt_id>/", receipts.receipt_detail, name="receipt-detail"),
    path("app/receipts/<str:receipt_id>/csv", receipts.receipt_as_csv, name="receipt-csv"),
    path("app/receipts/<str:receipt_id>/json", receipts.receipt_as_json, name="receipt-json"),
    path("app/usage/", usage.usage_page, name="usage"),
    path("app/wallet/", wallet.wallet_page, name="wallet"),
]
