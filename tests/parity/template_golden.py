#!/usr/bin/env python3
"""Writes tests/text/golden/jinja.json: what jinja2 makes of expressions, of random templates, and of the templates
in tests/fuzz/seeds/jinja, for tests/text/test_jinja_golden.c. A text of null stands for an exception.

Usage: template_golden.py > tests/text/golden/jinja.json
"""
import json
import pathlib
import sys

import template_cases
import template_grammar
import template_parity

SEEDS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "seeds" / "jinja"

EXPRESSIONS = r"""
1 + 2 * 3 ** 2 - 4 // 3 % 5 | 7 // -2 ~ ' ' ~ 7 % -2 ~ ' ' ~ -7 // 2 ~ ' ' ~ -7 % 2 | 7.5 // 2 ~ ' ' ~ -7.5 % 2 ~ ' ' ~ 7 / 2
2 ** -1 | 2 ** 62 | 1e16 ~ ' ' ~ 1e15 ~ ' ' ~ 0.0001 ~ ' ' ~ 0.00001 ~ ' ' ~ 0.1 + 0.2 | 1.0 ~ 100000.0 ~ 123456789012345680.0 | 1/3 | 2.5e-7 | -0.0
1 / 0 | 1 % 0 | 1.0 // 0 | 0 ** -1 | 'a' + 1 | 1 + 'a' | none + 1 | missing + 1 | -'a' | [] - [] | {} + {}
'a' * 3 ~ 2 * 'b' ~ [1, 2] * 2 ~ 'c' * -1 | [1] + [2] | (1,) + (2, 3) | 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x'] ~ missing
1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 == true | 'a' < 'b' | [1, 2] < [1, 3] | (1, 'a') < (1, 'b') | 'a' < 1 | none < none | missing < 1 | [] == () | {'a': 1, 'b': 2} == {'b': 2, 'a': 1} | missing == missing2 | none == missing
'ell' in s | 'x' not in s | 1 in [1, 2] | 'b' in d | 3 in d.values() | none in [none] | 1 in 'a' | [] in d | 1 in missing | 'a' in none | 2 in range(5) | 2.0 in range(5) | '' in ''
not true | not [] | true and 0 | '' or 'x' | 0 or none | 1 and 2 or 3 | not 1 == 2 | (1 if false) is defined | 1 if true else 2 | 1 if none else 2 if 0 else 3 | (1 if 0) ~ 'x'
none | true | false | [none, true, 1.5, 'q', "it's", 'a"b', '\'"', '\n\t\\'] | {'k': [1, (2,), ()]} | (1,) | ['\x00\x7f\xa0é\u200b😀'] | range(3) | range(1, 9, 2) | d.items() | d.keys() | d.values() | [missing]
s[0] ~ s[-1] ~ s[1:4] ~ s[::-1] ~ s[::2] ~ s[-3:] ~ s[:-3] | s[99] | s[99] is defined | u[1] ~ u[-1] ~ u[2:5] ~ u[::-1] | l[0] ~ l[-1] ~ l[5] | l[::-1] | l[1:] ~ l[:1] ~ l[10:] | (1, 2, 3)[1:] | range(10)[2:8:3] | range(10)[-1] | l['x'] | l[::0] | nil[1:] | n[0] | missing[0] | l[true] | l[1.0] | d[['x']] is defined
d.b | d['b'] | d.items is callable | ds.items | ds['items'] | d.missing | d.missing.more | missing.x | s.missing | s.upper() | ds['x y'][1].z | ds['x y'].1.z | rows[0].a | messages[-1].content is none | d.__class__ | s._x
s|upper ~ s|lower ~ s|title ~ s|capitalize | u|upper | u|lower | u|title | u.title() | u|capitalize | 'ΑΣ Σ ΣΑ ΑΣ.'|lower | 'ﬁ ß ŉ'|upper | "it's a 'test'-case (x) <y>"|title | "it's".title() | 'ǆ'.title() | nil|upper | missing|upper | 5|lower
w|trim | w.strip() | w.lstrip() | w.rstrip() | 'xxaxx'.strip('x') | 'abcba'.strip('ab') | '\u00a0\u2003a\u3000\x1c'.strip() | 'a'|trim('a') | 5|trim | 'xya'.lstrip('yx') | '..a..'.rstrip('.')
'a b  c'.split() | 'a b  c'.split(' ') | 'a b  c '.split(none, 1) | ' a b  c '.rsplit(none, 1) | 'a,b,,c'.split(',') | 'a,b,,c'.split(',', 2) | 'a,b,,c'.rsplit(',', 1) | ''.split() | ''.split(',') | 'a'.split('') | 'aXXbXX'.split('XX') | 'abc'.split(sep='b', maxsplit=1) | lines.splitlines() | lines.splitlines(true) | 'a\x0bb\u2028c'.splitlines() | 'a</think>b</think>c'.split('</think>')[-1] | ' a  b '.split(none, 0)
'a-b-c'.partition('-') | 'a-b-c'.rpartition('-') | 'abc'.partition('-') | 'abc'.rpartition('-') | 'abcabc'.replace('b', 'X') | 'aaa'.replace('a', 'b', 2) | 'abc'.replace('', '-') | 'abc'.replace('', '-', 2) | ''.replace('', 'x') | 'abc'|replace('b', 1) | 5|replace(5, 6) | 'aaa'|replace('a', 'b', count=1) | 'x'.replace(1, 2) | 'prefix-a'.removeprefix('prefix-') | 'a.txt'.removesuffix('.txt')
s.startswith('Hell') | s.startswith(('x', 'H')) | s.startswith(['H']) | s.endswith('d', 0, -1) | s.endswith('ld') | s.find('o') ~ s.rfind('o') ~ s.find('o', 5) ~ s.find('zz') ~ s.find('') | u.find('日') | s.index('zz') | s.count('l') ~ 'aaaa'.count('aa') ~ 'abc'.count('') | l.count(1) | l.index(2) | l.index(9) | ','.join(ls) | ','.join([1]) | ''.join('abc') | '-'.join(d)
'12'.isdigit() ~ ''.isdigit() ~ '²'.isdigit() ~ '½'.isnumeric() ~ 'a1'.isalnum() ~ 'é'.isalpha() ~ ' \n'.isspace() ~ 'Ab'.islower() ~ 'AB1'.isupper() ~ '1'.isupper()
l|length ~ s|length ~ u|length ~ d|count ~ missing|length | 5|length | nil|length | (l|map('string'))|length | l|first ~ l|last | []|first is defined | []|last | d|first | s|first ~ s|last | l|list ~ s|list | d|list | missing|list | nil|list | (l|select)|last | l|reverse|list | s|reverse | d|reverse|list
ls|join ~ ls|join('-') ~ l|join(', ') | rows|join(',', attribute='b') | missing|join('x') | nil|join | 'abc'|join('.') | [none, missing, 1.5]|join('|')
l|sort | l|sort(reverse=true) | ls|sort | ls|sort(case_sensitive=true) | rows[:3]|sort(attribute='a')|map(attribute='b')|join | rows[:3]|sort(attribute='b,a')|map(attribute='a')|list | mix|sort | ls|unique|list | ls|unique(true)|list | rows|unique(attribute='b')|map(attribute='b')|list | l|min ~ l|max | []|min | rows[:3]|max(attribute='a') | ls|min ~ ls|max(case_sensitive=true) | [1, 'a']|max
l|sum | l|sum(start=10) | rows[:3]|sum(attribute='a') | []|sum | ['a']|sum | [[1], [2]]|sum(start=[]) | [0.1, 0.2]|sum
ls|map('upper')|list | rows|map(attribute='a')|list | rows|map(attribute='a', default=0)|list | rows|map(attribute='x.y', default='?')|list | nest|map('length')|list | nest|map('first')|list | l|map('string')|join | l|map|list | []|map|list | nest|map(attribute=0)|list | l|map('nosuch')|list
l|select('odd')|list | l|reject('odd')|list | l|select('>', 1)|list | mix|select|list | mix|select('string')|list | mix|reject('none')|list | rows|selectattr('a')|map(attribute='a')|list | rows|selectattr('a', 'defined')|list|length | rows|selectattr('b', 'equalto', 'y')|map(attribute='a')|list | rows|rejectattr('a', 'in', [1, 2])|list | rows|selectattr('a', '>', 1)|list | messages|selectattr('role', '==', 'user')|list|length | messages|selectattr|list | nil|select|list | l|select('nosuch')|list
d|dictsort | d|dictsort(true) | d|dictsort(by='value', reverse=true) | d|dictsort(by='x') | d|items|list | missing|items|list | nil|items|list | missing|dictsort | d.get('b') ~ d.get('x') ~ d.get('x', 5) | d.get() | d.get(['x']) | l|batch(2)|list | l|batch(2, 0)|list | l.copy() ~ d.copy()
missing|default('x') ~ none|default('x') ~ none|default('x', true) ~ ''|d('y', boolean=true) ~ 0|default(1) | missing|default | missing.x|default(1) | '12'|int + 1 | 'x'|int ~ 'x'|int(5) ~ '0x1F'|int(0, 16) ~ '1_000'|int ~ ' 42 '|int ~ '3.9'|int ~ 3.9|int ~ -3.9|int ~ nil|int ~ true|int ~ []|int | missing|int | '1e3'|float ~ 'x'|float ~ nil|float(1) ~ '1_0.5'|float ~ '.5'|float ~ '5.'|float
2.5|round ~ 3.5|round ~ -2.5|round ~ 2.675|round(2) ~ 1234.5|round(-2) ~ 1250|round(-2) ~ 1350|round(-2) ~ 5|round | 2.55|round(1, 'ceil') ~ 2.55|round(1, 'floor') ~ 7|round(0, 'ceil') | 'a'|round | -5|abs ~ -2.5|abs ~ true|abs | 'a'|abs | 2.5|round(0, 'x')
{'a': [1, 2.0, none, true, 'é"\n\\/'], 'b': {}}|tojson | {'a': [1, {}], 'b': []}|tojson(indent=2) | {'b': 1, 'a': 2}|tojson(sort_keys=true) | {'a': 1}|tojson(separators=(',', ':')) | 'é😀\x7f\x01'|tojson(ensure_ascii=true) | {1: 2, none: 3, true: 4, 1.5: 5}|tojson | [1, 2]|tojson(indent=0) | [1]|tojson(indent='--') | missing|tojson | (1, 2)|tojson | range(3)|tojson | 1e400|tojson | [[], [[]]]|tojson(indent=1) | '<&>'|tojson | {'a': 1, 'b': 2}|tojson(indent=3, separators=('; ', '='))
lines|indent | lines|indent(2, true) | lines|indent(2, true, true) | 'a\n\nb'|indent('> ') | ''|indent | 'a'|indent(first=true) | 5|indent | '<a & "b">'|escape | '<a>'|e ~ '<b>'|safe | '<a>'|safe + '<b>' | '<b>' + '<a>'|safe | ('<a>'|e)|e | ('<a>'|e)|forceescape | ('a<'|safe).upper() + '<' | ['<'|safe] | ('<'|safe) * 2 + '<' | ','|safe ~ '<' | ('a,b'|safe).split(',') | 'x'|safe is escaped | q|e
'%s %d %5.2f|%-5s|%05d|%x|%r|%%' % ('a', 3, 2.345, 'b', 42, 255, 'q') | '%s' % none | '%s' % [1] | '%s %s' % (1,) | '%s' % (1, 2) | '%d' % 'a' | '%(a)s-%(b)05d' % {'a': 1, 'b': 2} | 'a' % 1 | 'a' % () | '%c%c' % (65, 'é') | '%e %g %G' % (12345.678, 0.00001, 1e20) | '%+d % d %+.1f' % (5, 5, -0.05) | '%.3s|%5s|%-5s|' % ('abcdef', 'é', 'ü') | '%#x %#o %X' % (255, 8, 255) | '%*d|%-*d|' % (5, 42, 5, 42) | '%s, %s!'|format('a', 'b') | '%(x)s'|format(x=1) | '%i' % 3.9
'{} {}'.format(1, 'b') | '{1} {0}'.format(1, 'b') | '{a} {b.x}'.format(a=1, b={'x': 2}) | '{0[a]} {0[b]}'.format({'a': 1}) | '{:>5}|{:<5}|{:^5}|{:*^7}|'.format('a', 'b', 'c', 'd') | '{:5}|{:05d}|{:.2f}|{:,}|{:x}|{:%}'.format(42, 42, 3.14159, 1234567, 255, 0.25) | '{{}} {}'.format(1) | '{!r} {!s}'.format('a', 'b') | '{}'.format() | '{} {0}'.format(1) | '{'.format(1) | '{:d}'.format('a') | '{:.3}'.format('abcdef') | '{:+} {: }'.format(3, 4) | '{:e}'.format(1234.5) | '{x}'.format(y=1) | '{}'.format(none) | '{:5}'.format(none) | '{:.1f}'.format(2) | '{:>08.3f}'.format(-3.14159) | '{:b} {:o} {:#X}'.format(5, 8, 255)
'foo bar baz qux'|truncate(9) | 'foo bar baz qux'|truncate(9, true) | 'foo bar baz qux'|truncate(11) | 'foo bar baz qux'|truncate(11, false, '..', 0) | 'a'|truncate(1) | 'one two_3 é4'|wordcount | s|string|length | [1, 2]|string
n is number ~ f is number ~ t is number ~ '1' is number ~ n is integer ~ t is integer ~ f is float ~ t is boolean ~ n is boolean | s is string ~ n is string ~ l is sequence ~ s is sequence ~ d is sequence ~ n is sequence ~ d is mapping ~ l is mapping ~ s is iterable ~ n is iterable ~ d.items() is sequence ~ (l|select) is iterable
nil is none ~ missing is none ~ missing is defined ~ missing is undefined ~ nil is defined ~ d.x is defined ~ t is true ~ no is false ~ 1 is true | 3 is odd ~ 4 is even ~ 9 is divisibleby 3 ~ 9 is divisibleby(2) ~ 'a' is in 'abc' ~ 'a' is in ['b'] ~ 1 is eq 1 ~ 1 is ne(1) ~ 2 is gt 1 ~ 2 is lessthan(1) ~ 'a' is lower ~ 'A' is upper ~ none is sameas none ~ 1 is sameas true | s is not none and s is not mapping | 'tojson' is filter ~ 'nope' is filter ~ 'odd' is test | range is callable ~ s is callable | 'a' is odd | 1 is nosuch | n is defined is true
range(5)|list | range(2, 5)|list | range(5, 0, -2)|list | range(0)|list | range(3)|length | range('a') | range(1, 2, 0) | range(100001)|length | range(10 ** 9) | dict(a=1, b=2) | dict([('a', 1), ['b', 2]]) | dict({'a': 1}, b=2) | dict(1) | namespace(a=1).a | namespace({'x': 2}).x | namespace(_a=1) | strftime_now('%Y-%m-%d %H:%M:%S %a %B %j %%') | joiner('|')() ~ 'x' | cycler(1, 2).next() | raise_exception('no')
[3, 1]|sort|join ~ (d|items|list)[0][0] ~ {'a': {'b': [10, 20]}}['a'].b[-1] | {1: 'a', '1': 'b', true: 'c'} | {} is mapping ~ ()|length ~ [1, 2, ]|length ~ {'a': 1, }|length | 'a' 'b' "c" | '\u00e9\x41\101\n\q\'' | 1_000 + 0x10 + 0b11 + 0o17 | 1.5e3 ~ 1E2 ~ 1_0.5 | l.append(4) | l.append is defined | d.update({}) | d.pop('b') | none.x is defined | true.x is defined | (1, 2) ~ 1, 2
""".strip()

TEMPLATES = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  {%+ if true %}\n  b\n  {%+ endif %}\nc\n", "a  {%- if true -%}  b  {%- endif -%}  c", "a {% if true +%}\nb{% endif +%}\nc\n\n",
    "x {# c #}\n y {#- c -#} z {# c\nd #}\n", "  {# c #}  \n{{ 1 }}\n\n{{ 2 }}\n", "{% raw %}\n {{ x }} {% if %}{% endraw %}\n.", "a {%- raw -%} b {%- endraw -%} c", "{{ 1 -}} \n {{- 2 }}", "\r\na\r{{ 'x\ny' }}\r\n", "{{ '}}' }}{{ {'a': {'b': 1}}}}", "{{'%}'}}{% if '%}' %}y{% endif %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in missing %}a{% else %}none{% endfor %}", "{% for x in nil %}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endfor %}", "{% for x in [1] %}{% break %}{% else %}odd{% endfor %}",
    "{% for x in nest recursive %}{{ loop.depth }}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}", "{% for x in s %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}", "{% set y = 1 %}{% for x in l %}{{ y }}{% set y = x %}{{ y }}{% endfor %}{{ y }}", "{% break %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for x in l %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}{{ ns }}", "{% set d.x = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set x %} a {{ n }} {% endset %}[{{ x }}]", "{% set x | trim | upper %} a {% endset %}[{{ x }}]", "{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "{% set 1 = 2 %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, c=5) }}|{{ m() }}|{{ m(b=1, a=0) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{% endcall %}", "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}-{{ b }}{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}", "{{ m }}{% macro m() %}{% endmacro %}{{ m.name }}{{ m.arguments }}", "{% macro m(x) %}{% set n = x %}{{ n }}{% endmacro %}{{ m(1) }}{{ n }}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|title %}a a{% endfilter %}", "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if nil %}a{% elif missing %}b{% elif s %}c{% endif %}", "{% print 1, 2 %}", "{% generation %}a{{ s }}{% endgeneration %}b", "{% if true: %}a{% endif %}", "{{ 1 }}{{", "{% if true %}", "{% endif %}", "{{ 1 + }}", "{% nosuch %}", "{{ s|nosuch }}", "{% if false %}{{ s|nosuch }}{% endif %}ok", "{% include 'x' %}", "{{ (1 }}", "{{ 'a }}", "{# a", "{% raw %}", "{{ a b }}", "{% for x l %}{% endfor %}", "{{ loop }}", "{% for i in range(3) %}{{ loop }}{% endfor %}", "{#", "{{ 1 }}{#-",
]


def case_subset():
    wanted = {"user", "system", "turns", "blank", "special", "reasoning", "tool call", "two calls", "call with odd arguments", "parts", "two users", "none", "none content", "unicode", "thinking in text"}
    for name, variables in template_cases.variables():
        base, _, more = name.partition(", ")
        if base in wanted or (name.startswith("{'enable_thinking'") and "no tools" not in name):
            yield name, variables


def main():
    variables = template_grammar.VARIABLES
    texts = ["{{ " + part.strip() + " }}" for line in EXPRESSIONS.splitlines() for part in line.split(" | ")] + TEMPLATES
    texts += [text for text in map(template_grammar.template, range(9000, 11000)) if len(text) < 160 and "truncate" not in text and "|string|" not in text]
    small = []
    for text in texts:
        (result,) = template_parity.reference(text, [variables])
        output = None if isinstance(result, Exception) else result[0]
        if output is None and text.startswith("{{") and len(small) > 700:
            continue  # random expressions mostly fail; some of them are enough
        if not template_parity.has_address(output):
            small.append([text, output])
    cases = list(case_subset())
    whole = []
    for path in sorted(SEEDS.glob("*.jinja")):
        results = template_parity.reference(path.read_text(), [c for _, c in cases])
        outputs = [None if isinstance(r, Exception) else r[0] for r in results]
        whole.append({"template": path.name, "outputs": outputs})
    golden = {"variables": variables, "small": small, "cases": [c for _, c in cases], "whole": whole}
    json.dump(golden, sys.stdout, ensure_ascii=False, indent=0, separators=(",", ":"))
    print()


main()
