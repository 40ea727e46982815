#!/usr/bin/env python3
"""Writes tests/formats/golden/columnar anew: small Parquet and Arrow files by pyarrow, each with its rows as JSON lines
(NAME.jsonl), and the same files as seeds of the fuzz target (tests/fuzz/seeds/columnar). Needs pyarrow.

Usage: columnar_golden.py
"""
import datetime
import decimal
import os
import sys

try:
    import pyarrow
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError as error:
    print(f"columnar_golden: needs a Python with pyarrow: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "formats", "golden", "columnar")
SEEDS = os.path.join(ROOT, "tests", "fuzz", "seeds", "columnar")
sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))
from parquet_parity import row_texts  # noqa: E402


def nested():
    pair = pyarrow.struct([("u", pyarrow.list_(pyarrow.int32())), ("v", pyarrow.string())])
    return pyarrow.table({
        "n": pyarrow.array([[{"u": [1, None], "v": "z"}, None], [], None, [{"u": None, "v": None}, {"u": [], "v": "k"}]],
                           pyarrow.list_(pair)),
        "m": pyarrow.array([[("k", 1), ("l", None)], [], None, [("", 7)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "t": pyarrow.array(["a", 'q"\\\n\t', None, "ä€😀"]),
    })


def values():
    day = datetime.datetime(2024, 2, 29, 13, 5, 7, 250000)
    return pyarrow.table({
        "flag": pyarrow.array([True, None, False]),
        "small": pyarrow.array([-128, 127, None], pyarrow.int8()),
        "large": pyarrow.array([0, 2**63, 2**64 - 1], pyarrow.uint64()),
        "half": pyarrow.array([0.5, None, -2.0], pyarrow.float16()),
        "real": pyarrow.array([0.1, float("nan"), 1e300]),
        "sum": pyarrow.array([decimal.Decimal("-12.50"), None, decimal.Decimal("0.01")], pyarrow.decimal128(20, 2)),
        "day": pyarrow.array([datetime.date(1969, 12, 31), None, datetime.date(2400, 2, 29)]),
        "clock": pyarrow.array([datetime.time(23, 59, 59, 1), None, datetime.time(0)], pyarrow.time64("us")),
        "moment": pyarrow.array([day, None, datetime.datetime(1900, 1, 1)], pyarrow.timestamp("us", tz="UTC")),
        "bytes": pyarrow.array([b"\xff\x00", b"text", None]),
        "fixed": pyarrow.array([b"abcd", None, b"\x80bcd"], pyarrow.binary(4)),
    })


def words():
    texts = ["alpha", "alphabet", "alphabets", "beta", "beta", "betas"] * 4
    return pyarrow.table({"w": texts, "i": pyarrow.array(range(100, 124), pyarrow.int32()),
                          "x": pyarrow.array([i / 8 for i in range(24)], pyarrow.float64())})


def write(name, first, save, read):
    path = os.path.join(GOLDEN, name)
    save(path)
    table = read(path)
    with open(path + ".jsonl", "w", encoding="utf-8", newline="\n") as file:
        file.writelines(text + "\n" for text in row_texts(table))
    with open(path, "rb") as file, open(os.path.join(SEEDS, name), "wb") as seed:
        seed.write(bytes([first]) + file.read())


def parquet(name, table, **options):
    options = {"store_schema": False, "write_statistics": False, **options}
    write(name + ".parquet", 0, lambda path: pyarrow.parquet.write_table(table, path, **options),
          lambda path: pyarrow.parquet.ParquetFile(path).read())


def arrow(name, table, stream, compression=None):
    new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    opened = pyarrow.ipc.open_stream if stream else pyarrow.ipc.open_file

    def save(path):
        with new(path, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table, max_chunksize=2)
    write(name + ".arrow", 1, save, lambda path: opened(path).read_all())


def main():
    os.makedirs(GOLDEN, exist_ok=True)
    os.makedirs(SEEDS, exist_ok=True)
    parquet("nested_v1", nested(), compression="snappy", data_page_size=16, write_batch_size=1)
    parquet("nested_v2", nested(), compression="zstd", data_page_version="2.0", row_group_size=2)
    parquet("values", values(), compression="none", use_dictionary=False)
    parquet("values_gzip", values(), compression="gzip", write_page_checksum=True)
    parquet("int96", values().select(["moment"]), use_deprecated_int96_timestamps=True, compression="lz4")
    deltas = {"w": "DELTA_BYTE_ARRAY", "i": "DELTA_BINARY_PACKED", "x": "BYTE_STREAM_SPLIT"}
    parquet("deltas", words(), use_dictionary=False, column_encoding=deltas)
    parquet("lengths", words(), use_dictionary=False, column_encoding={**deltas, "w": "DELTA_LENGTH_BYTE_ARRAY"},
            data_page_version="2.0")
    arrow("nested", nested(), False)
    arrow("nested_stream", nested(), True, "zstd")
    arrow("values", values(), True, "lz4")
    coded = pyarrow.table({"d": words()["w"].combine_chunks().dictionary_encode(),
                           "v": words()["w"].cast(pyarrow.string_view())})
    arrow("dictionary", coded, True)


if __name__ == "__main__":
    main()
