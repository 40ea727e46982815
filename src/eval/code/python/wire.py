# Values between two interpreters that do not trust each other: lines of JSON with tags, data only. What is rebuilt
# has exactly Python's own types, so that comparing it runs no code of the sender's. Objects that are no data stay
# with their owner; the other side gets a number for them.
#
#     null true 1 1.5 "text"      as they are
#     ["list", [...]]             and set, dict ([key, value] pairs), ...: containers that can change are counted
#     ["ref", 3]                  the fourth of them again
#     ["object", 7]               something of the sender's
import builtins
import json
import os
from collections import Counter, OrderedDict, defaultdict, deque

CHANNEL = 8  # the descriptor both interpreters talk through
MOST_BYTES = 64 << 20  # of a line
PLAIN_NUMBER = 1 << 53

# Containers that can change; a subclass before its base.
MUTABLE = (('counter', Counter), ('ordered', OrderedDict), ('default', defaultdict), ('dict', dict), ('list', list),
           ('set', set), ('deque', deque), ('bytearray', bytearray))
VIEWS = (('keys', type({}.keys())), ('values', type({}.values())), ('items', type({}.items())))
TYPES = {kind.__name__: kind for kind in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object,
                                          range, set, str, tuple, type, type(None))}


class Wire:
    def __init__(self):
        self.reader = os.fdopen(CHANNEL, 'rb')

    def send(self, message):
        self.send_bytes(json.dumps(message).encode('ascii') + b'\n')

    def send_bytes(self, data):
        data = memoryview(data)
        while data:
            data = data[os.write(CHANNEL, data):]

    def receive_bytes(self, size):
        data = self.reader.read(size)
        if len(data) < size:
            raise EOFError('the other interpreter has ended')
        return data

    def receive(self):
        line = self.reader.readline(MOST_BYTES)
        if not line.endswith(b'\n'):
            raise EOFError('the other interpreter has ended, or said too much')
        return json.loads(line)


def contents(container):
    """What a container holds, as a list."""
    if isinstance(container, dict):
        return [part for pair in container.items() for part in pair]
    return list(container)


def fill(container, parts):
    """Makes a container hold other things."""
    if isinstance(container, (list, bytearray)):
        container[:] = parts
        return
    container.clear()
    if isinstance(container, dict):
        for i in range(0, len(parts), 2):
            container[parts[i]] = parts[i + 1]
    elif isinstance(container, set):
        container.update(parts)
    else:
        container.extend(parts)


class Coder:
    """Encodes and decodes; own(value) and foreign(tag, number) are each side's for what is no data."""

    def __init__(self, own, foreign):
        self.own = own
        self.foreign = foreign

    def encode_all(self, values, known):
        return [self.encode(value, known) for value in values]

    def encode(self, value, known):
        """known: {id: number} of the containers of this exchange; grows."""
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            number = int.__int__(value)
            return number if -PLAIN_NUMBER < number < PLAIN_NUMBER else ['int', '%x' % number]
        if isinstance(value, float):
            return float.__float__(value)
        for tag, kind in MUTABLE:
            if isinstance(value, kind):
                if id(value) in known:
                    return ['ref', known[id(value)]]
                known[id(value)] = len(known)
                return [tag, self.encode_all(contents(value), known)]
        return self.encode_fixed(value, known)

    def encode_fixed(self, value, known):
        if isinstance(value, tuple):
            return ['tuple', self.encode_all(tuple.__iter__(value), known)]
        if isinstance(value, frozenset):
            return ['frozenset', self.encode_all(frozenset.__iter__(value), known)]
        if isinstance(value, bytes):
            return ['bytes', bytes.hex(value)]
        if isinstance(value, complex):
            return ['complex', value.real, value.imag]
        if isinstance(value, range):
            return ['range', self.encode_all((value.start, value.stop, value.step), known)]
        for tag, kind in VIEWS:
            if isinstance(value, kind):
                return [tag, self.encode_all(value, known)]
        kind = type(value)
        name = (kind.__module__, kind.__name__)
        if name in (('decimal', 'Decimal'), ('fractions', 'Fraction')):
            return [kind.__name__, str(value)]
        if name in (('datetime', 'date'), ('datetime', 'datetime'), ('datetime', 'time')):
            return [kind.__name__, value.isoformat()]
        if name == ('datetime', 'timedelta'):
            return ['timedelta', [value.days, value.seconds, value.microseconds]]
        if isinstance(value, type) and TYPES.get(value.__name__) is value:
            return ['type', value.__name__]
        if value is NotImplemented or value is Ellipsis:
            return ['constant', repr(value)]
        return self.own(value)

    def decode_all(self, data, table):
        return [self.decode(part, table) for part in data]

    def decode(self, data, table):
        """table: the containers of this exchange in the order they came; grows."""
        if not isinstance(data, list):
            if isinstance(data, dict):
                raise ValueError('no value')
            return data
        tag, body = data[0], data[1]
        for name, kind in MUTABLE:
            if tag == name:
                container = kind()
                table.append(container)
                fill(container, self.decode_all(body, table))
                return container
        if tag == 'ref':
            return table[body]
        if tag in ('object', 'iterator', 'callback', 'function'):
            return self.foreign(tag, body)
        if tag == 'complex':
            return complex(float(body), float(data[2]))
        return self.decode_fixed(tag, body, table)

    def decode_fixed(self, tag, body, table):
        if tag == 'int':
            return int(body, 16)
        if tag == 'tuple':
            return tuple(self.decode_all(body, table))
        if tag == 'frozenset':
            return frozenset(self.decode_all(body, table))
        if tag == 'bytes':
            return bytes.fromhex(body)
        if tag == 'range':
            return range(*self.decode_all(body, table))
        if tag == 'keys':
            return dict.fromkeys(self.decode_all(body, table)).keys()
        if tag == 'values':
            return dict(enumerate(self.decode_all(body, table))).values()
        if tag == 'items':
            return dict(self.decode_all(body, table)).items()
        if tag == 'type':
            return TYPES[body]
        if tag == 'constant':
            return {'NotImplemented': NotImplemented, 'Ellipsis': Ellipsis}[body]
        if tag == 'Decimal':
            import decimal
            return decimal.Decimal(body)
        if tag == 'Fraction':
            import fractions
            return fractions.Fraction(body)
        import datetime
        if tag == 'timedelta':
            return datetime.timedelta(*body)
        if tag in ('date', 'datetime', 'time'):
            return getattr(datetime, tag).fromisoformat(body)
        raise ValueError('an unknown tag')
