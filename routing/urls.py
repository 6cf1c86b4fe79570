"""Addresses of the pages of quotes, files, batches and workflows: customers' and operators'."""

from django.urls import path

from routing.views import (
    accuracy,
    batches,
    cancelling,
    deciding,
    files,
    operators,
    provider_notices,
    quote_path,
    quotes,
    rows,
    stored_files,
    workflows,
)

app_name = "routing"
urlpatterns = [
    path("app/quotes/", quotes.quote_list, name="quote-list"),
    path("app/quotes/new/", quotes.quote_new, name="quote-new"),
    path("app/quotes/<str:quote_id>/", quotes.quote_detail, name="quote-detail"),
    path("app/quotes/<str:quote_id>/accept/", quotes.quote_accept, name="quote-accept"),
    path("app/workflows/", workflows.workflow_list, name="workflow-list"),
    path("app/workflows/new/", workflows.workflow_new, name="workflow-new"),
    path("app/workflows/<str:workflow_id>/", workflows.workflow_detail, name="workflow-detail"),
    path("app/workflows/<str:workflow_id>/edit/", workflows.workflow_edit, name="workflow-edit"),
    path("app/workflows/<str:workflow_id>/archive/", workflows.workflow_archive, name="workflow-archive"),
    path("app/batches/", batches.batch_list, name="batch-list"),
    path("app/batches/<str:batch_id>/", batches.batch_detail, name="batch-detail"),
    path("app/batches/<str:batch_id>/cancel/", cancelling.batch_cancel, name="batch-cancel"),
    path("app/batches/<str:batch_id>/results", files.batch_results, name="batch-results"),
    path("app/batches/<str:batch_id>/requests", rows.batch_requests, name="batch-requests"),
    path("app/batches/<str:batch_id>/requests/<int:row>", rows.batch_request, name="batch-request"),
    path("app/batches/<str:batch_id>/files/<str:kind>", files.batch_file, name="batch-file"),
    path("app/accuracy/", accuracy.accuracy, name="accuracy"),
    path("provider-notices/<str:provider>/<str:kind>", provider_notices.provider_notice, name="provider-notice"),
    path("ops/accuracy/", accuracy.any_accuracy, name="any-accuracy"),
    path("ops/accuracy/<str:model_slug>/", accuracy.learning, name="learning"),
    path("app/batches/<str:batch_id>/files/delete/", stored_files.batch_files_delete, name="batch-files-delete"),
    path("app/batches/<str:batch_id>/retry/", quotes.batch_retry, name="batch-retry"),
    path("app/files/", stored_files.file_list, name="file-list"),
    path("app/files/<str:file_id>/", stored_files.file_detail, name="file-detail"),
    path("app/files/<str:file_id>/content", stored_files.file_content, name="file-content"),
    path("app/files/<str:file_id>/delete/", stored_files.file_delete, name="file-delete"),
    path("ops/quote-path/", quote_path.quote_path_page, name="quote-path"),
    path("ops/batches/", operators.any_batch_list, name="any-batch-list"),
    path("ops/batches/<str:batch_id>/", operators.any_batch_detail, name="any-batch-detail"),
    path("ops/batches/<str:batch_id>/cancel/", cancelling.any_batch_cancel, name="any-batch-cancel"),
    path("ops/jobs/<str:token>/decide/", deciding.unclear_job_decide, name="unclear-job-decide"),
]
