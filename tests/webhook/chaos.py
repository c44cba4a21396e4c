"""How long the scenarios of certificates take: a few seconds, or as the environment says."""

from __future__ import annotations

import os

SECONDS = float(os.environ.get("CHAOS_SECONDS", "1.5"))
"""With ``CHAOS_SECONDS=60`` the scenarios have the length that their targets are set for."""
EVENTS = 30
"""What happens in that time, such as rotations: one each two seconds in a minute."""
EVERY = SECONDS / EVENTS
