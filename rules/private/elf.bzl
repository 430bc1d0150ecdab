"""Reads the dynamic section of shared libraries, in repository rules.

The library can be for another machine, so this code does not run its tools. It uses `od`, which every Unix has.
"""

_HEADER_SIZE = 64
_PT_LOAD = 1
_PT_DYNAMIC = 2
_DT_NEEDED = 1
_DT_STRTAB = 5
_DT_SONAME = 14

# The printable characters of ASCII, in order. Names of libraries contain no others.
_FIRST = 32
_ASCII = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

# Names of libraries are usually adjacent. Longer ranges of a string table are read name by name.
_NAMES_SIZE = 1 << 16
_NAME_SIZE = 256

def _read(repository_ctx, path, offset, size):
    """Returns the bytes of a range of a file as numbers; fewer if the file ends before."""
    answer = repository_ctx.execute(["od", "-A", "n", "-v", "-t", "u1", "-j", str(offset), "-N", str(size), path])
    return [int(byte) for byte in answer.stdout.replace("\n", " ").split(" ") if byte] if answer.return_code == 0 else []

def _number(data, offset, size):
    value = 0
    for i in range(size):
        value += data[offset + i] << (8 * i)
    return value

def _text(data, offset):
    text = ""
    for byte in data[offset:]:
        if byte < _FIRST or byte >= _FIRST + len(_ASCII):
            break
        text += _ASCII[byte - _FIRST]
    return text

def read_dynamic(repository_ctx, path):
    """Reads the name and the requirements of a shared library.

    Args:
      repository_ctx: the context of a repository rule.
      path: a path; the file need not exist or be a library.

    Returns:
      a struct: soname (a string, empty if the library has none) and needed (list of the names of the libraries that it
      requires); None if the file is not a 64-bit little-endian ELF file with a dynamic section.
    """
    header = _read(repository_ctx, path, 0, _HEADER_SIZE)
    if len(header) < _HEADER_SIZE or header[:6] != [127, 69, 76, 70, 2, 1]:
        return None
    size, count = _number(header, 54, 2), _number(header, 56, 2)
    table = _read(repository_ctx, path, _number(header, 32, 8), size * count)
    if size < 56 or len(table) < size * count:
        return None
    loads, dynamic = [], None
    for at in range(0, size * count, size):
        kind = _number(table, at, 4)
        segment = struct(address = _number(table, at + 16, 8), offset = _number(table, at + 8, 8), size = _number(table, at + 32, 8))
        if kind == _PT_LOAD:
            loads.append(segment)
        elif kind == _PT_DYNAMIC:
            dynamic = segment
    if not dynamic:
        return None
    entries = _read(repository_ctx, path, dynamic.offset, dynamic.size)
    strings, soname, needed = 0, None, []
    for at in range(0, len(entries) - 15, 16):
        tag, value = _number(entries, at, 8), _number(entries, at + 8, 8)
        if tag == _DT_STRTAB:
            strings = value
        elif tag == _DT_SONAME:
            soname = value
        elif tag == _DT_NEEDED:
            needed.append(value)
    for segment in loads:
        if segment.address <= strings and strings < segment.address + segment.size:
            names = _names(repository_ctx, path, strings - segment.address + segment.offset, needed + ([soname] if soname != None else []))
            return struct(needed = [names[at] for at in needed], soname = names[soname] if soname != None else "")
    return None

def _names(repository_ctx, path, table, offsets):
    """Returns the strings at the given offsets of a string table."""
    if not offsets:
        return {}
    first, last = min(offsets), max(offsets)
    if last - first <= _NAMES_SIZE:
        data = _read(repository_ctx, path, table + first, last - first + _NAME_SIZE)
        return {offset: _text(data, offset - first) for offset in offsets}
    return {offset: _text(_read(repository_ctx, path, table + offset, _NAME_SIZE), 0) for offset in offsets}
