"""Text of strangers (engines, language models, programs) that can be sent and stored whatever they wrote."""

import re

_NEVER = re.compile("[\\x00\\ud800-\\udfff]")


def storable(text: str) -> str:
    """Replace what PostgreSQL and UTF-8 refuse, NUL and lone surrogates, by U+FFFD each."""
    return _NEVER.sub("\N{REPLACEMENT CHARACTER}", text)
