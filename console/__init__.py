"""Pages that cross apps, and the base that every page of the product stands on.

Public: ``templatetags.display`` (money, time, ids, counts, states) beside the pieces in ``templates/`` and the assets
in ``static/``; ``docs/pages.md`` tells a page author how to use them.

Always holds: the top floor, so no other app imports it; a page is readable without script, in both themes, at 320 px;
no inline script or style; every amount, instant and state on a page is printed by ``display``.
"""
