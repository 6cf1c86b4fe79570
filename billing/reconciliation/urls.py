"""Addresses of finance's pages of invoices, breaks and periods."""

from django.urls import path

from billing.reconciliation.views import breaks, invoices, periods

app_name = "reconciliation"
urlpatterns = [
    path("fin/invoices/", invoices.invoice_list, name="invoice-list"),
    path("fin/invoices/import", invoices.invoice_import, name="invoice-import"),
    path("fin/invoices/import/<str:file_id>/", invoices.invoice_file, name="invoice-file"),
    path("fin/invoices/import/<str:file_id>/mapping", invoices.invoice_mapping, name="invoice-mapping"),
    path("fin/invoices/import/<str:file_id>/cancel", invoices.file_cancel, name="file-cancel"),
    path("fin/invoices/import/<str:file_id>/file", invoices.file_download, name="file-download"),
    path("fin/invoices/<str:invoice_id>/", invoices.invoice_detail, name="invoice-detail"),
    path("fin/invoices/<str:invoice_id>/match", invoices.invoice_match, name="invoice-match"),
    path("fin/breaks/", breaks.break_list, name="break-list"),
    path("fin/breaks/decide", breaks.break_decide, name="break-decide"),
    path("fin/breaks/agree", breaks.breaks_agree, name="breaks-agree"),
    path("fin/breaks/dispute.csv", breaks.break_dispute_file, name="dispute-file"),
    path("fin/breaks/<str:break_id>/", breaks.break_detail, name="break-detail"),
    path("fin/breaks/<str:break_id>/agree", breaks.break_agree, name="break-agree"),
    path("fin/periods/", periods.period_list, name="period-list"),
    path("fin/periods/<str:month>/", periods.period_detail, name="period-detail"),
    path("fin/periods/<str:month>/closing.csv", periods.period_file, name="period-file"),
]
