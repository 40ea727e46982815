# The interpreter of an answer that is judged by cases. It reads the answer and does not run it: for each case it forks a
# process that does. It holds no right output.
import ast
import atexit
import resource
import signal
import sys
import tempfile
import threading
import traceback
import types

SECONDS = 6  # of processor time for a case
PATIENCE = 120  # seconds by the clock: a busy machine fails nobody
MOST_OUTPUT = 24 << 20  # bytes, as of the right ones (row_cases.h)
MOST_DIGITS = 50000  # of a whole number as text
RESULT = 3  # descriptor a function's result goes to
MODULES = ('string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys '
           'json builtins typing').split()
PLAIN = {int, float, str, bool, type(None)}


def given_names():
    """What answers may use without importing it, as in LiveCodeBench: these modules and all that is in them."""
    space = {}
    for name in MODULES:
        exec('from %s import *' % name, space)
    for name in MODULES[:-2]:
        exec('import ' + name, space)
    sys.setrecursionlimit(MOST_DIGITS)
    if hasattr(sys, 'set_int_max_str_digits'):
        sys.set_int_max_str_digits(MOST_DIGITS)
    return space


def load_modules(source):
    """Modules the answer imports are loaded once, not in every process."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        for name in names:
            try:
                __import__(name)
            except Exception:
                pass  # the answer's own failure, where it runs


def plain(value):
    """A value as JSON has it; what no right answer can equal is refused."""
    if getattr(value, 'shape', None) == ():
        value = value.item()  # a number of numpy's
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list):
        return value if set(map(type, value)) <= PLAIN else [plain(part) for part in value]
    if isinstance(value, dict) and set(map(type, value)) <= {str}:
        return {key: plain(part) for key, part in value.items()}
    raise TypeError('no right answer has a %s' % type(value).__name__)


def call(module, name, text):
    """The result of the function, or of the method of Solution, for arguments that are lines of JSON."""
    owner = module.Solution() if hasattr(module, 'Solution') else module
    result = getattr(owner, name)(*[json.loads(line) for line in text.split('\n')])
    if isinstance(result, tuple):
        result = list(result)
    with open(RESULT, 'w') as out:
        json.dump(plain(result), out)


def run_program(code, space, name, text):
    """In the forked process: runs the answer, and a function of it where one has a name. Returns the exit status."""
    module = types.ModuleType('answer' if name else '__main__')
    module.__dict__.update(space)
    sys.modules[module.__name__] = module
    status = 0
    try:
        exec(code, module.__dict__)
        if name:
            call(module, name, text.decode())
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    except SystemExit:
        status = 1 if name else 0  # a program may end so
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.__stdout__):
        if not stream.closed:
            stream.flush()
    return status


def become_program(code, space, name, text, files):
    """The forked process: it has its input, its output and its errors, and nothing else that is open here."""
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        signal.alarm(PATIENCE)
        own = [files[0].fileno(), files[1].fileno(), files[2].fileno()]
        for number, handle in enumerate(own):
            os.dup2(handle, number)
        if name:
            os.dup2(own[1], RESULT)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a function prints is nobody's
        os.closerange(RESULT + 1 if name else RESULT, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        status = run_program(code, space, name, text)
    finally:
        os._exit(status)


def problem_of(status, errors, written):
    """Why a process's output does not count; None: it does."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return 'more than %d s of processor time' % SECONDS
    if number == signal.SIGALRM:
        return 'more than %d s' % PATIENCE
    if number:
        return 'ended by signal %d' % number
    if status:
        errors.seek(max(0, errors.seek(0, 2) - 4096))
        lines = errors.read().decode('utf-8', 'replace').strip().split('\n')
        return lines[-1][:400] or 'exit status %d' % os.WEXITSTATUS(status)
    return 'more output than %d MiB' % (MOST_OUTPUT >> 20) if written > MOST_OUTPUT else None


def run_case(code, space, name, text):
    """(problem, output) of one case."""
    files = [tempfile.TemporaryFile() for _ in range(3)]
    try:
        files[0].write(text)
        files[0].seek(0)
        child = os.fork()
        if child == 0:
            become_program(code, space, name, text, files)
        status = os.waitpid(child, 0)[1]
        try:
            os.killpg(child, signal.SIGKILL)  # what it has started ends with it
        except OSError:
            pass
        problem = problem_of(status, files[2], files[1].seek(0, 2))
        files[1].seek(0)
        return problem, b'' if problem else files[1].read()
    finally:
        for file in files:
            file.close()


def serve(source):
    wire = Wire()
    space = given_names()
    code = compile(source, '/answer.py', 'exec', 0, True)
    load_modules(source)
    wire.send(['ready'])
    while True:
        try:
            name, size = wire.receive()
            text = wire.receive_bytes(size)
        except EOFError:
            return
        problem, output = run_case(code, space, name, text)
        wire.send([problem, len(output)])
        wire.send_bytes(output)
