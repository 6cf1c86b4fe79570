"""Addresses of the pages of batches: customers' and operators'."""

from django.urls import path

from routing.views import batches, cancelling, deciding, files, operators

app_name = "routing"
urlpatterns = [
    path("app/batches/", batches.batch_list, name="batch-list"),
    path("app/batches/<str:batch_id>/", batches.batch_detail, name="batch-detail"),
    path("app/batches/<str:batch_id>/cancel/", cancelling.batch_cancel, name="batch-cancel"),
    path("app/batches/<str:batch_id>/results", files.batch_results, name="batch-results"),
    path("app/batches/<str:batch_id>/files/<str:kind>", files.batch_file, name="batch-file"),
    path("ops/batches/", operators.any_batch_list, name="any-batch-list"),
    path("ops/batches/<str:batch_id>/", operators.any_batch_detail, name="any-batch-detail"),
    path("ops/batches/<str:batch_id>/cancel/", cancelling.any_batch_cancel, name="any-batch-cancel"),
    path("ops/jobs/<str:token>/decide/", deciding.unclear_job_decide, name="unclear-job-decide"),
]
