"""Writing what was learned: versions in their order, and the newest state of each key."""

from __future__ import annotations

from django.db import connection

from routing.models import LearnedState


def next_version() -> int:
    """Give the next version. Nobody else gets one until the transaction ends, so they become seen in their order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('learned versions', 0))")
        cursor.execute("SELECT nextval('routing_learned_versions')")
        return int(cursor.fetchone()[0])


def save_states(states: list[LearnedState]) -> None:
    """Write the newest states of keys, new or not."""
    LearnedState.objects.bulk_create(
        states,
        update_conflicts=True,
        unique_fields=["model_slug", "organisation", "scope", "name"],
        update_fields=["version", "learned_at", "state", "house_ratio_ppm"],
    )


def sweep_history() -> int:
    """Remove states that were replaced more than 90 days ago, and give how many; nobody goes back to them any more.

    Of each key the newest state that is older than that stays: it held 90 days ago.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM routing_learnedstateversion old
            WHERE old.learned_at < lanehouse_now() - interval '90 days' AND EXISTS (
                SELECT FROM routing_learnedstateversion newer
                WHERE newer.model_slug = old.model_slug AND newer.scope = old.scope AND newer.name = old.name
                  AND newer.organisation_id IS NOT DISTINCT FROM old.organisation_id AND newer.version > old.version
                  AND newer.learned_at < lanehouse_now() - interval '90 days'
            )
            """
        )
        return int(cursor.rowcount)
