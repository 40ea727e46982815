#!/usr/bin/env python3
"""Writes src/text/jinja/library/case_tables.c: where Python's str differs from utf8proc's simple case mapping, found by
asking both about every code point.

Usage: case_tables.py > src/text/jinja/library/case_tables.c
"""
import ctypes
import ctypes.util
import sys

utf8proc = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def rows(items, width):
    for i in range(0, len(items), width):
        print("    " + ", ".join(items[i : i + width]) + ",")


def cases(name, python, library):
    entries = []
    for c in POINTS:
        mapped = python(chr(c))
        if mapped != chr(library(c)):
            points = [ord(m) for m in mapped] + [0, 0]
            entries.append("{0x%x, {%s}}" % (c, ", ".join("0x%x" % p for p in points[:3])))
    print(f"\nconst struct jinja_special_case mt_jinja_special_{name}[] = {{")
    rows(entries, 3)
    print(f"}};\nconst size_t mt_jinja_special_{name}_count = sizeof mt_jinja_special_{name} / sizeof mt_jinja_special_{name}[0];")


def ranges(name, points):
    found = []
    for c in points:
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    print(f"\nconst struct jinja_characters mt_jinja_{name}[] = {{")
    rows(["{0x%x, 0x%x}" % tuple(r) for r in found], 5)
    print(f"}};\nconst size_t mt_jinja_{name}_count = sizeof mt_jinja_{name} / sizeof mt_jinja_{name}[0];")


def main():
    print("/*\n * Made by tests/parity/case_tables.py from Python %d.%d; not edited by hand." % sys.version_info[:2])
    print(" * What each table is for: text/jinja/library/unicode.h.\n */\n// clang-format off")
    print('#include "text/jinja/library/unicode.h"')
    cases("upper", str.upper, utf8proc.utf8proc_toupper)
    cases("lower", str.lower, utf8proc.utf8proc_tolower)
    cases("title", str.title, utf8proc.utf8proc_totitle)
    ranges("lower_changed", [c for c in POINTS if chr(c).islower() != bool(utf8proc.utf8proc_islower(c))])
    ranges("digits_added", [c for c in POINTS if chr(c).isdigit() and not chr(c).isdecimal()])
    ranges("numeric_added", [c for c in POINTS if chr(c).isnumeric() and not chr(c).isdigit()])


main()
