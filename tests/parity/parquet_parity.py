#!/usr/bin/env python3
"""Parquet and Arrow files that pyarrow wrote, read by metier and by pyarrow: the rows must be the same texts.

Tables: random nested data of every type that is read, and the rows of the benchmark files in DATA. Each is written with
every encoding its columns can have, every compression, pages of both versions, small pages and row groups, with and
without dictionaries; and as Arrow files and streams, plain, zstd and lz4. What must be refused (encrypted, brotli) is.

Usage: parquet_parity.py TOOL [--data DATA] [--rounds 3] [--seed 1]      TOOL: build/release/bin/rows_tool
       parquet_parity.py TOOL --large FILE [--gigabytes 2]    writes such a file, reads it and says how much memory that took
"""
import argparse
import base64
import csv
import datetime
import decimal
import glob
import gzip
import json
import math
import os
import random
import string
import subprocess
import sys
import tempfile

try:
    import numpy
    import pyarrow
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError as error:
    print(f"parquet_parity: needs a Python with numpy and pyarrow: {error}", file=sys.stderr)
    sys.exit(77)

# ---------------------------------------------------------------- pyarrow's rows as texts

UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def clock(seconds, fraction, digits):
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{fraction:0{digits}}" if fraction else "")


def moment(units, digits, utc):
    seconds, fraction = divmod(units, 10**digits)
    days, second = divmod(seconds, 86400)
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days=days)
    return f"{date.isoformat()}T{clock(second, fraction, digits)}{'Z' if utc else ''}"


def plain(scalar, type_):
    """What a scalar of pyarrow is as JSON, by the rules of docs/formats.md."""
    types = pyarrow.types
    if types.is_dictionary(type_):
        return plain(scalar.value, type_.value_type) if scalar.is_valid else None
    if not scalar.is_valid or types.is_null(type_):
        return None
    if types.is_struct(type_):
        return {field.name: plain(scalar[i], field.type) for i, field in enumerate(type_)}
    if types.is_map(type_):
        return {key_text(entry[0], type_.key_type): plain(entry[1], type_.item_type) for entry in scalar.values}
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return [plain(item, type_.value_type) for item in scalar.values]
    if types.is_timestamp(type_):
        return moment(scalar.value, UNITS[type_.unit], type_.tz is not None)
    if types.is_time(type_):
        seconds, fraction = divmod(scalar.value, 10**UNITS[type_.unit])
        return clock(seconds, fraction, UNITS[type_.unit])
    if types.is_date(type_):
        return scalar.as_py().isoformat()
    if types.is_duration(type_):
        return scalar.value
    value = scalar.as_py()
    if types.is_decimal(type_):
        return format(value, "f")
    if types.is_floating(type_):
        if type_.bit_width < 64 and math.isfinite(value):  # in as many digits as that many bits need
            return float(str((numpy.float32 if type_.bit_width == 32 else numpy.float16)(value)))
        if math.isnan(value):
            return "NaN"
        return float(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if types.is_unsigned_integer(type_):
        return value if value < 2**63 else str(value)
    if isinstance(value, bytes):
        try:
            if b"\0" not in value:
                return value.decode("utf-8")
        except UnicodeDecodeError:
            pass
        return base64.b64encode(value).decode("ascii")
    return value


def key_text(scalar, type_):
    value = plain(scalar, type_)
    return value if isinstance(value, str) else json.dumps(value)


def rows_of(table):
    columns = [(name, column, column.type) for name, column in zip(table.column_names, table.columns)]
    for i in range(table.num_rows):
        yield {name: plain(column[i], type_) for name, column, type_ in columns}


def row_texts(table):
    return [json.dumps(row, ensure_ascii=False) for row in rows_of(table)]


def same(ours, theirs):
    """Equal in kind and value; numbers of floating point to the bit."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
    return ours == theirs


# ---------------------------------------------------------------- random tables

def random_text(draw):
    if draw.random() < 0.1:
        return draw.choice(["", "ä€😀" * draw.randint(1, 40), 'a "quoted"\\ \x01\n\ttext', "x" * draw.randint(0, 3000)])
    return "".join(draw.choice(string.ascii_letters + " ") for _ in range(draw.randint(0, 30)))


def random_whole(draw, low, high):
    return draw.choice([low, high, 0, draw.randint(low, high), draw.randint(max(low, -9), min(high, 9))])


LEAVES = {
    "bool": (pyarrow.bool_(), lambda d: d.random() < 0.5),
    "int8": (pyarrow.int8(), lambda d: random_whole(d, -2**7, 2**7 - 1)),
    "uint8": (pyarrow.uint8(), lambda d: random_whole(d, 0, 2**8 - 1)),
    "int16": (pyarrow.int16(), lambda d: random_whole(d, -2**15, 2**15 - 1)),
    "uint16": (pyarrow.uint16(), lambda d: random_whole(d, 0, 2**16 - 1)),
    "int32": (pyarrow.int32(), lambda d: random_whole(d, -2**31, 2**31 - 1)),
    "uint32": (pyarrow.uint32(), lambda d: random_whole(d, 0, 2**32 - 1)),
    "int64": (pyarrow.int64(), lambda d: random_whole(d, -2**63, 2**63 - 1)),
    "uint64": (pyarrow.uint64(), lambda d: random_whole(d, 0, 2**64 - 1)),
    "float16": (pyarrow.float16(), lambda d: float(d.choice([0.5, -2.0, 65504.0, 6e-8, -0.0, math.inf]))),
    "float32": (pyarrow.float32(), lambda d: d.choice([d.gauss(0, 1), math.nan, -math.inf, 1e-45, -0.0])),
    "float64": (pyarrow.float64(), lambda d: d.choice([d.gauss(0, 1e9), 1e-320, math.inf, 3.0, -0.0])),
    "string": (pyarrow.string(), random_text),
    "large_string": (pyarrow.large_string(), random_text),
    "binary": (pyarrow.binary(), lambda d: d.randbytes(d.randint(0, 9))),
    "fixed": (pyarrow.binary(5), lambda d: d.randbytes(5)),
    "decimal": (pyarrow.decimal128(30, 4), lambda d: decimal.Decimal(d.randint(-10**30 + 1, 10**30 - 1)).scaleb(-4)),
    "decimal_small": (pyarrow.decimal128(7, 7), lambda d: decimal.Decimal(d.randint(-9999999, 9999999)).scaleb(-7)),
    "decimal256": (pyarrow.decimal256(60, 0), lambda d: decimal.Decimal(d.randint(-10**60 + 1, 10**60 - 1))),
    "date32": (pyarrow.date32(), lambda d: d.randint(-700000, 2900000)),
    "date64": (pyarrow.date64(), lambda d: d.randint(-700000, 2900000) * 86400000),
    "time32": (pyarrow.time32("ms"), lambda d: d.randint(0, 86399999)),
    "time64": (pyarrow.time64("ns"), lambda d: d.randint(0, 86400 * 10**9 - 1)),
    "timestamp_ms": (pyarrow.timestamp("ms"), lambda d: d.randint(-9 * 10**12, 9 * 10**12)),
    "timestamp_us": (pyarrow.timestamp("us", tz="Europe/Berlin"), lambda d: d.randint(-9 * 10**15, 9 * 10**15)),
    "timestamp_ns": (pyarrow.timestamp("ns"), lambda d: d.randint(-10**18, 2 * 10**18)),
}
ONLY_ARROW = {"duration": (pyarrow.duration("us"), lambda d: d.randint(-10**12, 10**12)),
              "timestamp_s": (pyarrow.timestamp("s"), lambda d: d.randint(-10**10, 10**11)),
              "string_view": (pyarrow.string_view(), random_text),
              "null": (pyarrow.null(), lambda d: None),
              "coded": (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), lambda d: d.choice("abc"))}


def random_type(draw, depth, leaves):
    """A type, and what draws a value of it."""
    kind = draw.random()
    if depth == 0 or kind < 0.4:
        type_, value = leaves[draw.choice(sorted(leaves))]
    elif kind < 0.6:
        item_type, item = random_type(draw, depth - 1, leaves)
        make = draw.choice([pyarrow.list_, pyarrow.large_list])
        type_, value = make(item_type), lambda d: [item(d) for _ in range(d.choice([0, 1, 2, 7]))]
    elif kind < 0.65 and "duration" in leaves:  # pyarrow does not read its own ones from Parquet where they are null
        item_type, item = random_type(draw, depth - 1, leaves)
        type_, value = pyarrow.list_(item_type, 3), lambda d: [item(d) for _ in range(3)]
    elif kind < 0.75:
        item_type, item = random_type(draw, depth - 1, leaves)
        type_ = pyarrow.map_(pyarrow.string(), item_type)

        def value(d):
            return [(f"k{i}", item(d)) for i in range(d.randint(0, 3))]
    else:
        members = [(f"f{i}", *random_type(draw, depth - 1, leaves)) for i in range(draw.randint(1, 3))]
        type_ = pyarrow.struct([(name, member) for name, member, _ in members])

        def value(d):
            return {name: item(d) for name, _, item in members}
    return type_, lambda d: None if d.random() < 0.2 else value(d)


def random_table(draw, leaves, depth):
    columns = {}
    for name, (type_, value) in leaves.items():
        columns[name] = (type_, lambda d, value=value: None if d.random() < 0.2 else value(d))
    for i in range(6):
        columns[f"nested{i}"] = random_type(draw, depth, leaves)
    count = draw.choice([0, 1, 7, 100, 500])
    arrays = {}
    for name, (type_, value) in columns.items():
        values = [value(draw) for _ in range(count)]
        if name.startswith(("date", "time", "timestamp", "duration")):
            whole = pyarrow.int32() if type_.bit_width == 32 else pyarrow.int64()
            arrays[name] = pyarrow.array(values, whole).cast(type_)
        else:
            arrays[name] = pyarrow.array(values, type_)
    return pyarrow.table(arrays)


# ---------------------------------------------------------------- real tables

def real_tables(data):
    for path in sorted(glob.glob(os.path.join(data, "**", "*"), recursive=True)):
        name = path[:-3] if path.endswith(".gz") else path
        opened = gzip.open if path.endswith(".gz") else open
        if not name.endswith((".jsonl", ".csv")) or os.path.isdir(path) or "tokenizers" in path:
            continue
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            try:
                rows = [json.loads(line) for line in file if line.strip()] if name.endswith(".jsonl") else [
                    dict(enumerate(row)) for row in csv.reader(file)]
                rows = [{str(key): value for key, value in row.items()} for row in rows[:2000]]
                yield os.path.relpath(path, data), pyarrow.Table.from_pylist(rows)
            except (ValueError, pyarrow.ArrowException):
                continue  # not a table: members of several types


# ---------------------------------------------------------------- files

COMPRESSIONS = ["none", "snappy", "gzip", "zstd", "lz4"]


def encodings(table, draw):
    """For each flat column one of the encodings pyarrow can write it in."""
    chosen = {}
    for field in table.schema:
        types, type_ = pyarrow.types, field.type
        if types.is_string(type_) or types.is_binary(type_) or types.is_large_string(type_):
            chosen[field.name] = draw.choice(["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
        elif types.is_integer(type_) or types.is_date(type_) or types.is_timestamp(type_) or types.is_time(type_):
            chosen[field.name] = draw.choice(["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
        elif types.is_fixed_size_binary(type_):
            chosen[field.name] = draw.choice(["PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"])
        elif types.is_floating(type_) or types.is_decimal(type_):
            chosen[field.name] = draw.choice(["PLAIN", "BYTE_STREAM_SPLIT"])
        elif types.is_boolean(type_):
            chosen[field.name] = draw.choice(["PLAIN", "RLE"])
    return chosen


def write_parquet(table, path, draw, number):
    """The numbers of one table go through compressions and page versions; the rest is drawn."""
    options = {"compression": COMPRESSIONS[number % 5], "data_page_version": ["1.0", "2.0"][number // 5 % 2],
               "row_group_size": draw.choice([3, 50, 100000]), "store_schema": draw.random() < 0.5,
               "data_page_size": draw.choice([1, 100, 1 << 20]), "write_batch_size": draw.choice([1, 16, 1024]),
               "write_page_checksum": draw.random() < 0.5, "coerce_timestamps": draw.choice([None, None, "ms", "us"]), "allow_truncated_timestamps": True,
               "use_compliant_nested_type": draw.random() < 0.7}
    if draw.random() < 0.5:
        options |= {"use_dictionary": False, "column_encoding": encodings(table, draw)}
    elif draw.random() < 0.3:
        options["dictionary_pagesize_limit"] = 40  # then it goes on without one
    if "column_encoding" not in options and draw.random() < 0.3:
        options["use_deprecated_int96_timestamps"] = True
        options["coerce_timestamps"] = None
    pyarrow.parquet.write_table(table, path, **options)
    return options


def write_arrow(table, path, draw, number):
    options = {"compression": [None, "zstd", "lz4"][number % 3], "stream": number // 3 % 2 == 0,
               "chunk": draw.choice([1, 30, 100000]), "deltas": draw.random() < 0.3}
    new = pyarrow.ipc.new_stream if options["stream"] else pyarrow.ipc.new_file
    settings = pyarrow.ipc.IpcWriteOptions(compression=options["compression"],
                                           emit_dictionary_deltas=options["deltas"])
    with new(path, table.schema, options=settings) as writer:
        writer.write_table(table, max_chunksize=options["chunk"])
    return options


def read_back(path, arrow, options, table):
    if not arrow:
        try:
            return pyarrow.parquet.ParquetFile(path).read()
        except pyarrow.ArrowInvalid as error:
            # pyarrow 26 does not read all it writes: a struct's members of a list's empty pages get another length.
            if "Struct child array" not in str(error):
                raise
            if options.get("use_deprecated_int96_timestamps") or options["coerce_timestamps"]:
                return None
            return table
    opened = pyarrow.ipc.open_stream if options["stream"] else pyarrow.ipc.open_file
    with open(path, "rb") as file:
        return opened(file.read()).read_all()


def compare(tool, table, path, what, arrow, options):
    """The rows of the file as we and as pyarrow read them; returns how many."""
    done = subprocess.run([tool, path], capture_output=True)
    if done.returncode != 0:
        sys.exit(f"FAILED {what}: {done.stderr.decode().strip()}; {options}")
    ours = [line for line in done.stdout.decode("utf-8").split("\n") if line]
    back = read_back(path, arrow, options, table)
    if back is None:
        return 0
    theirs = list(rows_of(back))
    if len(ours) != len(theirs):
        sys.exit(f"FAILED {what}: {len(ours)} rows, pyarrow reads {len(theirs)}; {options}")
    for i, (line, row) in enumerate(zip(ours, theirs)):
        if not same(json.loads(line), row):
            sys.exit(f"FAILED {what}: row {i}\n  {line[:2000]}\n  {json.dumps(row)[:2000]}\n  {options}")
    return len(ours)


def refuse(tool, table, folder):
    """What is not read is refused with the column's name."""
    path = os.path.join(folder, "refused.parquet")
    pyarrow.parquet.write_table(table, path, compression="brotli")
    done = subprocess.run([tool, path], capture_output=True, text=True)
    if done.returncode != 1 or "column" not in done.stderr or "BROTLI" not in done.stderr:
        sys.exit(f"FAILED brotli: {done.stderr}")


def run(arguments):
    draw = random.Random(arguments.seed)
    files = rows = 0
    with tempfile.TemporaryDirectory() as folder:
        tables = [(f"random {i}", random_table(draw, LEAVES, 4), False) for i in range(4 * arguments.rounds)]
        tables += [(f"random arrow {i}", random_table(draw, LEAVES | ONLY_ARROW, 4), True)
                   for i in range(4 * arguments.rounds)]
        if arguments.data:
            tables += [(name, table, None) for name, table in real_tables(arguments.data)]
        for name, table, only_arrow in tables:
            real = only_arrow is None
            for number in range(0 if only_arrow else (2 if real else 10)):
                path = os.path.join(folder, "rows.parquet")
                options = write_parquet(table, path, draw, draw.randrange(10) if real else number)
                rows += compare(arguments.tool, table, path, f"{name} as Parquet", False, options)
                files += 1
            for number in range(1 if real else 6):
                path = os.path.join(folder, "rows.arrow")
                options = write_arrow(table, path, draw, draw.randrange(6) if real else number)
                rows += compare(arguments.tool, table, path, f"{name} as Arrow", True, options)
                files += 1
        refuse(arguments.tool, pyarrow.table({"a": [1, 2]}), folder)
    print(f"{files} files of {len(tables)} tables, {rows} rows, all as pyarrow reads them")


def run_large(arguments):
    """A file of conversations, made piece by piece, and the most memory that reading it took."""
    draw = random.Random(arguments.seed)
    words = ["".join(draw.choice(string.ascii_lowercase) for _ in range(draw.randint(2, 9))) for _ in range(50000)]
    writer = None
    while writer is None or os.path.getsize(arguments.large) < arguments.gigabytes * 1e9:
        texts = [" ".join(draw.choices(words, k=250)) for _ in range(2000)]
        pairs = [[{"role": "user", "content": a}, {"role": "assistant", "content": b}] for a, b in zip(texts, texts[1:])]
        table = pyarrow.table({"messages": pairs * 5, "id": list(range(5 * len(pairs)))})
        writer = writer or pyarrow.parquet.ParquetWriter(arguments.large, table.schema, compression="snappy",
                                                         use_dictionary=False)
        writer.write_table(table)
    writer.close()
    done = subprocess.run([arguments.tool, "--count", arguments.large], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: {done.stderr}")
    print(f"{os.path.getsize(arguments.large) / 1e9:.2f} GB,", ", ".join(done.stdout.split("\n")[:2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool")
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large")
    parser.add_argument("--gigabytes", type=float, default=2)
    arguments = parser.parse_args()
    if arguments.large:
        run_large(arguments)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
