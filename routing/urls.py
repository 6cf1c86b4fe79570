"""Addresses of the customers' pages of batches."""

from django.urls import path

from routing.views import batches, files

app_name = "routing"
urlpatterns = [
    path("app/batches/", batches.batch_list, name="batch-list"),
    path("app/batches/<str:batch_id>/", batches.batch_detail, name="batch-detail"),
    path("app/batches/<str:batch_id>/results", files.batch_file, {"kind": "results"}, name="batch-results"),
    path("app/batches/<str:batch_id>/output", files.batch_file, {"kind": "output"}, name="batch-output"),
    path("app/batches/<str:batch_id>/errors", files.batch_file, {"kind": "errors"}, name="batch-errors"),
]
