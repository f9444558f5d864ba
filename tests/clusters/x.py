"""TODO"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
