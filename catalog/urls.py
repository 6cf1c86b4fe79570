"""Addresses of the catalog's pages."""

from django.urls import path

from catalog import views, wall

app_name = "catalog"
urlpatterns = [
    path("ops/sla/", wall.wall, name="wall"),
    path("ops/lanes/", views.lane_list, name="lane-list"),
    path("ops/lanes/<str:model_slug>/<str:lane_id>/rotate/", views.lane_rotate, name="lane-rotate"),
    path("ops/lanes/<str:model_slug>/<str:lane_id>/", wall.lane_page, name="lane-page"),
]
