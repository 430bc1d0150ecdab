"""Parses sizes with units."""

_UNITS = {
    "": 1,
    "B": 1,
    "GB": 1000 * 1000 * 1000,
    "GiB": 1 << 30,
    "KB": 1000,
    "KiB": 1 << 10,
    "MB": 1000 * 1000,
    "MiB": 1 << 20,
    "TB": 1000 * 1000 * 1000 * 1000,
    "TiB": 1 << 40,
}

def parse_size(text, where):
    """Reads a size such as `1GiB`, `500 MB` or `4096`.

    Args:
      text: the size.
      where: prefix of error messages.

    Returns:
      the size in bytes.
    """
    digits = text.rstrip("BKMGTi ")
    unit = text[len(digits):].strip()
    if not digits.isdigit() or unit not in _UNITS:
        fail("{}: {} is not a size, expected an integer and a unit, one of {}, e.g. 1GiB".format(
            where,
            repr(text),
            ", ".join([name for name in _UNITS if name]),
        ))
    return int(digits) * _UNITS[unit]
