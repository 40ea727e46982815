"""Random templates: expressions and statements from a grammar, over variables of every type."""
import random

VARIABLES = {
    "n": 7, "m": -3, "z": 0, "f": 2.5, "g": -0.125, "big": 1e16, "t": True, "no": False, "nil": None,
    "s": "Hello World", "e": "", "u": "Größe Σίσυφος ßİ ǆ 日本 😀", "w": "  a\tb \n c  ", "q": "it's \"q\" <b> & \\", "d1": "12", "d2": " -3.5e2 ",
    "csv": "a,b,,c,", "lines": "one\ntwo\r\nthree\n\n", "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "mix": [1, "x", None, True, 2.5, []],
    "nest": [[1, 2], [3], []], "d": {"b": 1, "a": 2, "C": 3}, "ds": {"k": "v", "items": 5, "x y": [1, {"z": "w"}]},
    "rows": [{"a": 1, "b": "x"}, {"a": 3, "b": "Y"}, {"a": 2, "b": "y", "c": None}, {"b": "z"}],
    "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "hi <x>"}, {"role": "assistant", "content": None}],
}
NAMES = list(VARIABLES) + ["missing", "loop", "x", "y"]
STRINGS = ["''", "'a'", "'b'", "' '", "','", "'\\n'", "'ab'", "\"it's\"", "'%s'", "'%d-%s'", "'{}'", "'é'", "'role'", "'content'", "'a.b'", "'odd'", "'upper'", "'l'", "'0'", "'-12'"]
FILTERS = ["trim", "upper", "lower", "capitalize", "title", "length", "count", "list", "string", "int", "float", "first", "last", "reverse",
           "sort", "unique", "join", "tojson", "items", "dictsort", "abs", "round", "sum", "min", "max", "safe", "e", "escape", "indent", "default", "d", "wordcount",
           "trim({s})", "replace({s}, {s})", "replace({s}, {s}, {i})", "join({s})", "join({s}, 'b')", "default({x})", "default({x}, true)", "int({i})", "int(0, 16)", "float(1.5)", "round({i})", "round(1, 'floor')", "round(2,'ceil')",
           "sort(reverse=true)", "sort(attribute='a')", "sort(case_sensitive=true)", "sort(attribute='b,a')", "map('upper')", "map(attribute='a')", "map(attribute='a', default={x})", "map('default', {s})", "map('int')", "map('length')",
           "select", "reject", "select('odd')", "select('string')", "reject('none')", "select('in', {x})", "selectattr('a')", "selectattr('a', 'defined')", "selectattr('b', 'equalto', {s})", "rejectattr('a', 'gt', 1)", "select('>', 1)",
           "tojson(indent={i})", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "tojson(ensure_ascii=true)", "indent({i})", "indent(2, true)", "indent(2, true, true)", "indent({s})", "dictsort(true)", "dictsort(by='value')", "dictsort(false, 'key', true)", "unique(true)", "unique(attribute='b')",
           "batch(2)", "batch(2, {x})", "batch(2)|list", "truncate(5)", "truncate(5, true)", "truncate(8, false, '..', 0)", "sum(attribute='a')", "sum(start={x})", "min(attribute='a')", "max(case_sensitive=true)", "attr('upper')", "attr({s})", "format({x})", "format({x}, {x})", "map('tojson')|list", "forceescape", "string|length", "list|length"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "odd", "even", "callable", "lower", "upper", "escaped",
         "divisibleby({i})", "divisibleby 3", "equalto({x})", "eq {x0}", "ne {x0}", "in({x})", "in {x0}", "sameas({x})", "gt({i})", "lessthan({i})", "ge {i}", "filter", "test"]
METHODS = ["strip()", "strip({s})", "lstrip()", "rstrip({s})", "upper()", "lower()", "title()", "capitalize()", "split()", "split({s})", "split({s}, {i})", "split(none, 1)", "split(maxsplit=1)", "split(sep={s})", "rsplit({s}, 1)", "rsplit(none, {i})", "rsplit()", "splitlines()", "splitlines(true)",
           "replace({s}, {s})", "replace({s}, {s}, {i})", "startswith({s})", "endswith({s})", "startswith(('a', 'H'))", "startswith({s}, {i})", "find({s})", "rfind({s})", "find({s}, {i}, {i})", "index({s})", "count({s})", "count({x})", "join({x})", "format({x})", "format({x}, a={x})",
           "partition({s})", "rpartition({s})", "removeprefix({s})", "removesuffix({s})", "isdigit()", "isalpha()", "isalnum()", "isspace()", "islower()", "isupper()", "isnumeric()", "isdecimal()", "items()", "keys()", "values()", "items()|list", "get({s})", "get({s}, {x})", "index({x})", "copy()", "append(1)", "pop()", "nothing()", "is_integer()"]
ATTRIBUTES = ["a", "b", "role", "content", "items", "keys", "k", "x y", "upper", "missing", "_x", "0", "index", "index0", "first", "last", "length", "previtem", "nextitem", "revindex", "depth"]
FORMATS = ["'%s'", "'%d'", "'%5d|'", "'%-5s|'", "'%05.1f'", "'%x'", "'%r'", "'%s %s'", "'%(a)s'", "'%%'", "'%e'", "'%g'", "'%+d'", "'% d'", "'%.2s'", "'%c'", "'%i%%'", "'%#x'", "'%o'", "'%X'"]
BRACES = ["'{}'", "'{} {}'", "'{0}{0}'", "'{a}'", "'{:>5}'", "'{:<5}|'", "'{:^7}'", "'{:*^7}'", "'{:05d}'", "'{:.2f}'", "'{:,}'", "'{!r}'", "'{0[a]}'", "'{{}}'", "'{:e}'", "'{:+}'", "'{:x}'", "'{:#x}'", "'{:%}'", "'{:s}'", "'{:d}'", "'{:5}|'", "'{:<05}'", "'{'", "'}'"]


class Grammar:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, items):
        return self.random.choice(items)

    def fill(self, text, depth):
        while True:
            for key, make in (("{s}", lambda: self.pick(STRINGS)), ("{i}", lambda: str(self.random.randint(-3, 6))),
                              ("{x0}", lambda: self.primary()), ("{x}", lambda: self.expression(depth - 1))):
                if key in text:
                    text = text.replace(key, make(), 1)
                    break
            else:
                return text

    def primary(self):
        kind = self.random.randrange(10)
        if kind < 5:
            return self.pick(NAMES)
        if kind < 7:
            return self.pick(STRINGS)
        if kind < 9:
            return self.pick(["0", "1", "2", "-1", "10", "3.0", "1.5", "-2.25", "1e3", "true", "none", "False", "1_000", "0x1F"])
        return self.pick(["[]", "{}", "()", "[1, 2]", "('a', 1)", "{'a': 1, 'b': none}", "range(4)", "range(5, 0, -2)", "dict(a=1)", "namespace(a=1)", "[none, true]"])

    def slice(self):
        part = lambda: self.pick(["", "", "0", "1", "-1", "2", "-2", "5", "none"])
        return f"[{part()}:{part()}]" if self.random.random() < 0.7 else f"[{part()}:{part()}:{self.pick(['1', '2', '-1', '-2', ''])}]"

    def expression(self, depth):
        if depth <= 0:
            return self.primary()
        kind = self.random.randrange(20)
        sub = lambda: self.expression(depth - 1)
        if kind < 4:
            return self.primary() if self.random.random() < 0.4 else f"({sub()})|{self.fill(self.pick(FILTERS), depth)}"
        if kind < 7:
            return f"{sub()}|{self.fill(self.pick(FILTERS), depth)}"
        if kind < 9:
            return f"({sub()}).{self.fill(self.pick(METHODS), depth)}"
        if kind == 9:
            return f"{sub()} is {self.pick(['', 'not '])}{self.fill(self.pick(TESTS), depth)}"
        if kind == 10:
            # jinja2 folds slices of literals, of numbers too; nobody writes those
            return f"({self.pick(NAMES)}{self.pick(['', '', '|' + self.fill(self.pick(FILTERS), 0)])}){self.slice()}"
        if kind == 11:
            return f"({sub()})[{sub()}]"
        if kind == 12:
            name = self.pick(ATTRIBUTES)
            return f"({sub()}).{name}" if " " not in name else f"({sub()})['{name}']"
        if kind == 13:
            return f"{sub()} {self.pick(['+', '-', '*', '/', '//', '%', '~', '~', '+', '**'])} {sub()}"
        if kind == 14:
            return f"{sub()} {self.pick(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {sub()}"
        if kind == 15:
            return f"{sub()} {self.pick(['and', 'or'])} {sub()}" if self.random.random() < 0.8 else f"not {sub()}"
        if kind == 16:
            return f"({sub()} if {sub()} else {sub()})" if self.random.random() < 0.8 else f"({sub()} if {sub()})"
        if kind == 17:
            return self.pick([f"[{sub()}, {sub()}]", f"({sub()}, {sub()})", f"{{'a': {sub()}, {self.primary()}: {sub()}}}", f"-{self.primary()}", f"+({sub()})"])
        if kind == 18:
            return f"{self.pick(FORMATS)} % {self.pick([self.primary(), '(' + sub() + ')', '(' + sub() + ', ' + sub() + ')'])}"
        return f"{self.pick(BRACES)}.format({self.pick([self.primary(), sub() + ', ' + sub(), 'a=' + sub()])})"

    def tag(self, inside):
        return "{%" + self.pick(["", "", "-", "+"]) + " " + inside + " " + self.pick(["", "", "-", "+"]) + "%}" + self.pick(["", "", "\n", " \n", "\n\n"])

    def text(self):
        return self.pick(["", " ", "\n", "a", " b \n", "\n  ", "<|x|>", "  ", "é\n", "{# c #}", "{#- c -#}\n", "{% raw %} {{ r }} {% endraw %}\n", "\r\n"])

    def output(self, depth):
        return "{{" + self.pick(["", "-"]) + " " + self.expression(depth) + " " + self.pick(["", "-"]) + "}}"

    def body(self, depth):
        return "".join(self.text() + self.statement(depth) for _ in range(self.random.randint(1, 3))) + self.text()

    def statement(self, depth):
        kind = self.random.randrange(16) if depth > 0 else 0
        inner = lambda: self.body(depth - 1)
        e = lambda: self.expression(self.random.randint(0, 2))
        if kind < 6:
            return self.output(self.random.randint(0, 3))
        if kind < 8:
            return self.tag(f"if {e()}") + inner() + self.pick(["", self.tag("else") + inner(), self.tag(f"elif {e()}") + inner()]) + self.tag("endif")
        if kind < 11:
            target = self.pick(["x", "x", "k, x"])
            control = self.pick(["", "", self.tag(f"if {e()}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")])
            return self.tag(f"for {target} in {e()}{self.pick(['', '', f' if {e()}'])}") + "{{ loop." + self.pick(["index", "first", "last", "revindex", "length", "index0", "nextitem", "previtem"]) + " }}" + control + inner() + self.pick(["", self.tag("else") + inner()]) + self.tag("endfor")
        if kind == 11:
            return self.tag(f"set {self.pick(['x', 'y', 's', 'x, y'])} = {e()}") + inner()
        if kind == 12:
            return self.tag(f"set y{self.pick(['', '|upper', '|trim'])}") + inner() + self.tag("endset") + "{{ y }}"
        if kind == 13:
            name = self.pick(["m1", "m2"])
            return self.tag(f"macro {name}({self.pick(['', 'x', 'x, y=2', 'x=n'])})") + inner() + self.pick(["", "{{ caller() if caller }}", "{{ varargs }}{{ kwargs }}"]) + self.tag("endmacro") + "{{ " + f"{name}({self.pick(['', e(), e() + ', ' + e(), 'x=' + e()])})" + " }}"
        if kind == 14:
            return self.pick([self.tag(f"filter {self.pick(['upper', 'trim', 'replace(x, n)', 'length', 'title'])}") + inner() + self.tag("endfilter"),
                              self.tag(f"with x = {e()}, y = {e()}") + inner() + self.tag("endwith"),
                              self.tag("generation") + inner() + self.tag("endgeneration")])
        return self.tag("set ns = namespace(v=0)") + self.tag(f"for x in {e()}") + self.tag(f"set ns.v = {self.pick(['ns.v + 1', 'x', 'ns.v ~ x', 'loop.index'])}") + self.tag("endfor") + "{{ ns.v }}"


def template(seed):
    grammar = Grammar(seed)
    if grammar.random.random() < 0.6:
        return "{{ " + grammar.expression(grammar.random.randint(1, 3)) + " }}"
    return grammar.body(3)
