#!/usr/bin/env python3
"""Writes src/formats/tokenizer/unicode_tables.c: what the `tokenizers` library knows about characters and the
libraries of this machine (PCRE2, utf8proc) do not, found by asking both about every code point.

Usage: unicode_tables.py > src/formats/tokenizer/unicode_tables.c   (needs the `tokenizers` package)
"""
import ctypes
import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ALL = "".join(map(chr, POINTS))
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
)


def ranges(points):
    result = []
    for c in sorted(points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def library_set(pattern):
    """Code points the library's regular expressions match."""
    kept = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(ALL)
    unmatched = set()
    for _, (start, end) in kept:
        unmatched.update(range(start, end))
    return {POINTS[i] for i in range(len(POINTS)) if i not in unmatched}


def pcre2_set(pattern):
    """Code points PCRE2 matches."""
    pcre = ctypes.CDLL("libpcre2-8.so.0")
    for name in ("pcre2_compile_8", "pcre2_match_data_create_8", "pcre2_get_ovector_pointer_8"):
        getattr(pcre, name).restype = ctypes.c_void_p
    error, offset = ctypes.c_int(), ctypes.c_size_t()
    utf_ucp = 0x00080000 | 0x00020000
    code = pcre.pcre2_compile_8(
        pattern.encode(), ctypes.c_size_t(len(pattern)), utf_ucp, ctypes.byref(error), ctypes.byref(offset), None
    )
    assert code, pattern
    data = pcre.pcre2_match_data_create_8(1, None)
    found = set()
    for c in POINTS:
        text = chr(c).encode()
        if pcre.pcre2_match_8(
            ctypes.c_void_p(code), text, ctypes.c_size_t(len(text)), ctypes.c_size_t(0), 0, ctypes.c_void_p(data), None
        ) > 0:
            found.add(c)
    return found


def removed_by(pre_tokenizer):
    kept = set()
    for _, (start, end) in pre_tokenizer.pre_tokenize_str(ALL):
        kept.update(range(start, end))
    return {POINTS[i] for i in range(len(POINTS)) if i not in kept}


def numeric_set():
    text = "a".join(map(chr, POINTS))
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text)
    return {POINTS[start // 2] for _, (start, end) in pieces if end - start == 1 and start % 2 == 0}


def utf8proc_map(text, options):
    proc = utf8proc_map.library
    out = ctypes.POINTER(ctypes.c_uint8)()
    raw = text.encode()
    length = proc.utf8proc_map(raw, ctypes.c_ssize_t(len(raw)), ctypes.byref(out), options)
    assert length >= 0
    result = ctypes.string_at(out, length).decode()
    ctypes.CDLL(None).free(out)
    return result


def normalization_unknown():
    """Characters utf8proc decomposes, composes or reorders and the library, older in this, leaves alone."""
    utf8proc_map.library = ctypes.CDLL("libutf8proc.so.2")
    utf8proc_map.library.utf8proc_map.restype = ctypes.c_ssize_t
    decompose, compat = 1 << 4, 1 << 2
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    found = {0x11930}  # second half of U+11938, which the library does not compose
    for c in POINTS:
        if c == 0:
            continue
        marked = "a" + chr(c) + "\u0334"
        if nfkd.normalize_str(chr(c)) != utf8proc_map(chr(c), decompose | compat):
            found.add(c)
        elif nfd.normalize_str(marked) != utf8proc_map(marked, decompose):
            found.add(c)
    return found


def lowercase_pairs():
    proc = ctypes.CDLL("libutf8proc.so.2")
    lower = normalizers.Lowercase()
    pairs = []
    for c in POINTS:
        ours = chr(proc.utf8proc_tolower(c))
        theirs = lower.normalize_str(chr(c))
        if ours != theirs and c != 0x130:
            assert len(theirs) == 1
            pairs.append((c, ord(theirs)))
    return pairs


def print_ranges(name, comment, rows):
    print(f"\n/* {comment} */")
    print(f"const struct mt_code_range {name}[] = {{")
    cells = [f"{{0x{a:x}, 0x{b:x}}}," for a, b in rows]
    line = "   "
    for cell in cells:
        if len(line) + 1 + len(cell) > 108:
            print(line)
            line = "   "
        line += " " + cell
    print(line)
    print("};")
    print(f"const size_t {name}_count = sizeof {name} / sizeof {name}[0];")


def main():
    print("/*")
    print(f" * Made by tests/parity/unicode_tables.py from tokenizers {tokenizers.__version__}; not edited by hand.")
    print(" * What each table is for: formats/tokenizer/unicode.h.")
    print(" */")
    print("// clang-format off")
    print('#include "formats/tokenizer/unicode.h"')
    unassigned = pcre2_set(r"\p{Cn}")
    print("\n/* Characters newer than PCRE2's tables, with their general category. */")
    print("const struct mt_category_range mt_unicode_added[] = {")
    cells = []
    for category in CATEGORIES:
        for a, b in ranges(library_set(r"\p{%s}" % category) & unassigned):
            cells.append(f'{{0x{a:x}, 0x{b:x}, "{category}"}},')
    line = "   "
    for cell in cells:
        if len(line) + 1 + len(cell) > 108:
            print(line)
            line = "   "
        line += " " + cell
    print(line)
    print("};")
    print("const size_t mt_unicode_added_count = sizeof mt_unicode_added / sizeof mt_unicode_added[0];")
    print_ranges("mt_unicode_han_added", "Script Han, beyond PCRE2's.",
                 ranges(library_set(r"\p{Han}") - pcre2_set(r"\p{sc:Han}")))
    print_ranges("mt_unicode_alphabetic_added", "Alphabetic, beyond PCRE2's.",
                 ranges(library_set(r"\p{Alphabetic}") - pcre2_set(r"\p{Alphabetic}")))
    print_ranges("mt_unicode_numeric", "Digits: numeric characters.", ranges(numeric_set()))
    print_ranges("mt_unicode_punctuation", "Punctuation.", ranges(removed_by(pre_tokenizers.Punctuation("removed"))))
    strip = normalizers.StripAccents()
    print_ranges("mt_unicode_combining", "StripAccents: combining marks.",
                 ranges(c for c in POINTS if strip.normalize_str("a" + chr(c)) == "a"))
    print_ranges("mt_unicode_normal_unknown", "Left alone by NFC, NFD, NFKC and NFKD.", ranges(normalization_unknown()))
    print_ranges("mt_unicode_lowercase_added", "Lower case beyond utf8proc's: {from, to}.", lowercase_pairs())


if __name__ == "__main__":
    sys.exit(main())
