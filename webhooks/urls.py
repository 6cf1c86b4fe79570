"""Addresses of the webhook pages."""

from django.urls import path

from webhooks.views import deliveries, endpoints

app_name = "webhooks"
urlpatterns = [
    path("app/webhooks/", endpoints.endpoint_list, name="endpoint-list"),
    path("app/webhooks/new/", endpoints.endpoint_new, name="endpoint-new"),
    path("app/webhooks/deliveries/", deliveries.delivery_list, name="delivery-list"),
    path("app/webhooks/deliveries/<str:delivery_id>/", deliveries.delivery_detail, name="delivery-detail"),
    path("app/webhooks/deliveries/<str:delivery_id>/resend/", deliveries.delivery_resend, name="delivery-resend"),
    path("app/webhooks/<str:endpoint_id>/", endpoints.endpoint_detail, name="endpoint-detail"),
    path("app/webhooks/<str:endpoint_id>/edit/", endpoints.endpoint_edit, name="endpoint-edit"),
    path("app/webhooks/<str:endpoint_id>/rotate/", endpoints.endpoint_rotate, name="endpoint-rotate"),
    path("app/webhooks/<str:endpoint_id>/delete/", endpoints.endpoint_delete, name="endpoint-delete"),
    path("app/webhooks/<str:endpoint_id>/state/", endpoints.endpoint_state, name="endpoint-state"),
    path("app/webhooks/<str:endpoint_id>/test/", endpoints.endpoint_test, name="endpoint-test"),
]
