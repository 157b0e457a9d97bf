"""Names of files that people save, made of what they call things."""

_LONGEST = 100
_FORBIDDEN = '/\\:*?"<>|'


def file_stem(name: str, otherwise: str) -> str:
    """Make a name that every file system takes; `otherwise` when nothing of it is left.

    No separators, no control characters, no dot or dash in front, at most 100 characters.
    """
    plain = "".join("_" if c in _FORBIDDEN or not c.isprintable() else c for c in name)
    return plain.strip(" .-")[:_LONGEST].rstrip(" .-") or otherwise
