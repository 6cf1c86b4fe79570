"""Addresses of the catalog's pages."""

from django.urls import path

from catalog import views, wall
from catalog.pricing import views as pricing

app_name = "catalog"
urlpatterns = [
    path("ops/rates/", pricing.rate_list, name="rate-list"),
    path("ops/rates/drafts/", pricing.draft_list, name="draft-list"),
    path("ops/rates/drafts/<str:draft_id>/", pricing.draft_detail, name="draft-detail"),
    path("ops/rates/drafts/<str:draft_id>/decide/", pricing.draft_decide, name="draft-decide"),
    path("ops/rates/new/", pricing.draft_new, name="draft-new"),
    path("ops/rates/import/", pricing.price_import, name="price-import"),
    path("ops/sla/", wall.wall, name="wall"),
    path("ops/lanes/", views.lane_list, name="lane-list"),
    path("ops/lanes/<str:model_slug>/<str:lane_id>/rotate/", views.lane_rotate, name="lane-rotate"),
    path("ops/lanes/<str:model_slug>/<str:lane_id>/", wall.lane_page, name="lane-page"),
]
