# The interpreter of the tests: has the task's row, and reaches the answer only by calls whose values are data.
import ast
import sys

ANSWER_ENDED = 3  # exit status: how the answer's interpreter ended says more (sandbox_many.c)


class Remote:
    """Something of the answer's: can be called, and has attributes. Equal to itself only."""
    __slots__ = ('_link', '_target')

    def __init__(self, link, target):
        object.__setattr__(self, '_link', link)
        object.__setattr__(self, '_target', target)

    def __call__(self, *arguments, **named):
        return self._link.call(self._target, arguments, named)

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return self._link.ask(['get', self._target, name], {}, [])

    def __setattr__(self, name, value):
        known = {}
        self._link.ask(['set', self._target, name, self._link.coder.encode(value, known)], {}, [])

    def __repr__(self):
        return '<an object of the answer\'s>'


class RemoteIterator(Remote):
    """An iterator of the answer's."""
    __slots__ = ()
    __contains__ = None  # one that yields everything would contain everything

    def __iter__(self):
        return self

    def __next__(self):
        return self._link.ask(['next', self._target], {}, [])


class Link:
    def __init__(self):
        self.wire = Wire()
        self.coder = Coder(self.own, self.foreign)
        self.callbacks = []
        self.remotes = {}

    def own(self, value):
        if isinstance(value, Remote) and isinstance(value._target, int):
            return ['object', value._target]
        name = getattr(value, '__name__', '')
        if name and getattr(builtins, name, None) is value:
            return ['function', name]
        if callable(value):
            self.callbacks.append(value)
            return ['callback', len(self.callbacks) - 1]
        raise TypeError('%s cannot be handed to the answer' % type(value).__name__)

    def foreign(self, tag, number):
        if tag not in ('object', 'iterator') or type(number) is not int:
            raise ValueError('no object')
        if number not in self.remotes:
            self.remotes[number] = (RemoteIterator if tag == 'iterator' else Remote)(self, number)
        return self.remotes[number]

    def call(self, target, arguments, named):
        known = {}
        keep = []
        encoded = [self.encode_kept(value, known, keep) for value in arguments]
        pairs = [[name, self.encode_kept(value, known, keep)] for name, value in named.items()]
        return self.ask(['call', target, encoded, pairs], known, keep)

    def encode_kept(self, value, known, keep):
        keep.append(value)  # numbers of objects stay theirs only while they live
        return self.coder.encode(value, known)

    def ask(self, message, known, keep):
        try:
            self.wire.send(message)
            reply = self.wire.receive()
            while reply[0] == 'callback':
                self.call_back(reply)
                reply = self.wire.receive()
            return self.take(reply, containers(known, keep))
        except Answered as answered:
            error = answered.error
        except MemoryError:
            raise
        except (EOFError, OSError):
            give_up('it has ended', ANSWER_ENDED)
        except BaseException as problem:
            give_up('what came back is no reply (%s)' % type(problem).__name__)
        raise error

    def call_back(self, message):
        table = []
        function = self.callbacks[message[1]]
        arguments = self.coder.decode_all(message[2], table)
        named = {name: self.coder.decode(value, table) for name, value in message[3]}
        try:
            self.wire.send(['result', self.coder.encode(function(*arguments, **named), {})])
        except Exception as error:
            self.wire.send(['failure', type(error).__name__, str(error)])

    def take(self, reply, table):
        if reply[0] == 'error':
            raise Answered(nearest_error(reply[1])(str(reply[2])))
        if reply[0] != 'value':
            raise ValueError('no reply')
        sent = len(table)
        value = self.coder.decode(reply[1], table)
        changes = [(table[:sent][number], self.coder.decode_all(parts, table)) for number, parts in reply[2]]
        for container, parts in changes:
            fill(container, parts)
        return value


class Answered(Exception):
    """The answer's function raised this."""

    def __init__(self, error):
        self.error = error


def give_up(reason, status=1):
    sys.stderr.write('the answer: %s\n' % reason)
    sys.stderr.flush()
    os._exit(status)


def containers(known, keep):
    """The containers that were sent, by number."""
    table = [None] * len(known)
    waiting = list(keep)
    while waiting:
        value = waiting.pop()
        number = known.get(id(value))
        if number is not None:
            if table[number] is not None:
                continue
            table[number] = value
        if isinstance(value, (list, tuple, set, frozenset, deque, dict)):
            waiting.extend(contents(value))
    return table


def nearest_error(names):
    """The first of the names that is an error of Python's own, made from a text."""
    for name in names:
        kind = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, UnicodeError):
            return kind
    return Exception


def names_of(nodes):
    return {node.id for top in nodes for node in ast.walk(top) if isinstance(node, ast.Name)}


def bound_by(tree):
    """Names a module binds at its top level: by def or class, and in other ways."""
    defined, others = set(), set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            others |= names_of(node.targets)
        elif not isinstance(node, ast.Expr):
            others |= imported(node) | names_of([node])
    return defined, others


def imported(tree):
    return {(node.asname or node.name).split('.')[0] for node in ast.walk(tree) if isinstance(node, ast.alias)}


def free_names(tests):
    """Names that tests use and do not bind."""
    loaded, stored = set(), bound_by(tests)[0] | imported(tests)
    for node in ast.walk(tests):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else stored).add(node.id)
        elif isinstance(node, ast.arg):
            stored.add(node.arg)
    return loaded - stored


def prepare(given, tests, calls):
    """The tests' namespace, and what they take from the answer: {name: name there}."""
    space = {'__name__': '__main__', '__builtins__': builtins}
    pairs = [pair.partition('=') for pair in calls.split()]
    names = {here: there or here for here, _, there in pairs}
    given = ast.parse(given)
    defined, others = bound_by(given)
    wanted = free_names(tests)
    if not names:
        names = {name: name for name in wanted & defined}
    # Running what nobody uses would only take time.
    if (wanted - names.keys()) & (defined | others) or '*' in others:
        exec(compile(given, 'given', 'exec', 0, True), space)
    if not pairs:
        names.update({name: name for name in wanted if name not in names and
                      (callable(space.get(name)) and name in names_of_assigned(given) or
                       name not in space and not hasattr(builtins, name))})
    return space, names


def names_of_assigned(tree):
    return names_of([target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets])


def show_failure(tests):
    """The traceback of what is being handled, with the lines of the tests."""
    import linecache
    import traceback
    lines = tests.decode('utf-8', 'replace').splitlines(True)
    linecache.cache['tests'] = (len(tests), None, lines, 'tests')
    traceback.print_exc()


def judge(given, tests, calls):
    link = Link()
    tree = ast.parse(tests)
    space, names = prepare(given, tree, calls.decode())
    try:
        if link.wire.receive() != ['ready']:
            give_up('it does not begin as it should')
    except (EOFError, OSError):
        give_up('it ended before it could be called', ANSWER_ENDED)
    except ValueError:
        give_up('it does not begin as it should')
    # Tests and answers used to be one program: what tests import, an answer may use.
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if imports:
        link.ask(['imports', ast.unparse(ast.Module(imports, []))], {}, [])
    for here, there in names.items():
        space[here] = Remote(link, there)
    try:
        exec(compile(tree, 'tests', 'exec', 0, True), space)
    except BaseException:
        show_failure(tests)
        sys.exit(1)
