# The judge of an answer by cases: hands one input after another to the answer's interpreter, and holds what comes back
# against the right output as LiveCodeBench does.
import base64
import signal
import sys
import zlib
from decimal import Decimal

ANSWER_ENDED = 3  # exit status: how the answer's interpreter ended says more (sandbox_many.c)
MOST_OUTPUT = 24 << 20  # bytes of an output
MOST_DIGITS = 50000  # of a whole number as text
PATIENCE = 150  # seconds by the clock, where an answer's processes stop what would have ended them


def read_cases(public, private, begin, end):
    """All cases. The program around this has looked at every byte of them (row_cases.c)."""
    if end > 0:
        private = zlib.decompress(base64.b64decode(private))[begin:end]
    return json.loads(public) + json.loads(private)


def shown(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + '...'


def decimals(line):
    try:
        return [Decimal(part) for part in line.split()]
    except ArithmeticError:
        return None


def same_line(said, right):
    """As texts, else as numbers, to the last digit."""
    if said == right:
        return True
    numbers = decimals(said)
    try:
        return numbers is not None and numbers == decimals(right)
    except ArithmeticError:
        return False  # a number that is none and cannot be compared


def compare_text(said, right):
    """What is wrong with the output of a program; None: nothing. White space at the ends of lines does not count."""
    said = [line.strip() for line in said.strip().split('\n')]
    right = [line.strip() for line in right.strip().split('\n')]
    if len(said) != len(right):
        return '%d lines instead of %d' % (len(said), len(right))
    for number, (one, other) in enumerate(zip(said, right), 1):
        if not same_line(one, other):
            return 'line %d is %s instead of %s' % (number, shown(one), shown(other))
    return None


def compare_value(said, right):
    """The same of the result of a function."""
    said, right = json.loads(said), json.loads(right)
    return None if said == right else '%s instead of %s' % (shown(said), shown(right))


def leave(reason, status=1):
    sys.stderr.write(reason.replace('\n', ' ') + '\n')
    sys.stderr.flush()
    os._exit(status)


def hear(wire):
    """The answer's reply to a case: (problem, output)."""
    problem, size = wire.receive()
    if type(size) is not int or not 0 <= size <= MOST_OUTPUT or not isinstance(problem, (str, type(None))):
        raise ValueError('no reply')
    return problem, wire.receive_bytes(size).decode('utf-8', 'replace')


def try_case(wire, case, name):
    """What is wrong with what the answer makes of a case; None: nothing."""
    text = case['input'].encode('utf-8')
    signal.alarm(PATIENCE)
    wire.send([name, len(text)])
    wire.send_bytes(text)
    problem, output = hear(wire)
    signal.alarm(0)
    if problem is not None:
        return problem
    return compare_value(output, case['output']) if name else compare_text(output, case['output'])


def out_of_patience(*_):
    raise TypeError('no reply in time')


def judge(public, private, how):
    wire = Wire()
    signal.signal(signal.SIGALRM, out_of_patience)
    begin, end, name = how.decode().split(' ')
    if hasattr(sys, 'set_int_max_str_digits'):
        sys.set_int_max_str_digits(MOST_DIGITS)
    cases = read_cases(public, private, int(begin), int(end))
    if not cases:
        leave('there are no tests')
    number = 0
    try:
        if wire.receive() != ['ready']:
            raise ValueError('no beginning')
        for number, case in enumerate(cases, 1):
            problem = try_case(wire, case, name)
            if problem is not None:
                leave('test %d of %d: %s' % (number, len(cases), problem))
    except (EOFError, OSError):
        leave('test %d of %d: the answer has ended' % (number, len(cases)), ANSWER_ENDED)
    except (ValueError, TypeError, RecursionError):
        leave('test %d of %d: no reply' % (number, len(cases)))
