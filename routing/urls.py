"""Customers' pages of batches."""

from django.urls import path

from routing import views

app_name = "routing"
urlpatterns = [
    path("app/batches/", views.batch_list, name="batch-list"),
    path("app/batches/<str:batch_id>/", views.batch_detail, name="batch-detail"),
    path("app/batches/<str:batch_id>/live", views.batch_live, name="batch-live"),
    path("app/batches/<str:batch_id>/results", views.batch_results, name="batch-results"),
]
