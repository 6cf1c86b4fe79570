"""Addresses of the pages of money: customers' and finance's."""

from django.urls import path

from billing.adjustments import views as adjustments
from billing.alerts import views as alerts
from billing.books import views as books
from billing.books import wallet_views
from billing.views import exports, receipts, usage, wallet

app_name = "billing"
urlpatterns = [
    path("app/receipts/", receipts.receipt_list, name="receipt-list"),
    path("app/receipts/<str:receipt_id>/", receipts.receipt_detail, name="receipt-detail"),
    path("app/receipts/<str:receipt_id>/csv", receipts.receipt_as_csv, name="receipt-csv"),
    path("app/receipts/<str:receipt_id>/pdf", receipts.receipt_as_pdf, name="receipt-pdf"),
    path("app/receipts/<str:receipt_id>/json", receipts.receipt_as_json, name="receipt-json"),
    path("app/usage/", usage.usage_page, name="usage"),
    path("app/wallet/", wallet.wallet_page, name="wallet"),
    path("app/wallet/alert/", alerts.wallet_alert, name="wallet-alert"),
    path("app/wallet/statements/<str:month>/", wallet_views.month_statement, name="month-statement"),
    path("fin/adjustments/", adjustments.adjustment_list, name="adjustment-list"),
    path("fin/adjustments/new/", adjustments.adjustment_new, name="adjustment-new"),
    path("fin/adjustments/<str:adjustment_id>/", adjustments.adjustment_detail, name="adjustment-detail"),
    path("fin/adjustments/<str:adjustment_id>/decide/", adjustments.adjustment_decide, name="adjustment-decide"),
    path("fin/ledger/", books.ledger, name="ledger"),
    path("fin/ledger/accounts/", books.trial_balance, name="ledger-accounts"),
    path("fin/ledger/accounts/<path:code>/", books.account_page, name="ledger-account"),
    path("fin/ledger/entries/<path:key>/", books.entry_detail, name="entry-detail"),
    path("fin/ledger/health/", books.ledger_health, name="ledger-health"),
    path("fin/receipts/<str:receipt_id>/", receipts.house_receipt, name="house-receipt"),
    path("fin/wallets/", wallet_views.wallet_list, name="wallet-list"),
    path("fin/wallets/<str:organisation_id>/top-up/", wallet_views.wallet_top_up, name="wallet-top-up"),
    *(
        path(f"{start}exports/{tail}", getattr(exports, f"{views}_{page}"), name=f"{prefix}-{page}")
        for start, views, prefix in (("app/", "export", "export"), ("fin/", "house", "house-export"))
        for tail, page in (
            ("", "list"),
            ("new", "new"),
            ("<str:export_id>/", "detail"),
            ("<str:export_id>/cancel", "cancel"),
            ("<str:export_id>/file", "file"),
            ("<str:export_id>/metadata", "metadata"),
        )
    ),
]
