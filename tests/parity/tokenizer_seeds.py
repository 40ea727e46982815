#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets tokenizer and tiktoken: the golden tokenizers, cut down to a few tokens."""
import base64
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "formats", "golden", "tokenizers")
SEEDS = os.path.join(ROOT, "tests", "fuzz", "seeds")


def cut(content):
    """Keeps few tokens, the merges among them, and added tokens with ids that fit."""
    model = content["model"]
    wanted = set("aelo▁Ġ<>s/") | {"<unk>", "<s>", "</s>", "[UNK]", "?", "<0xC3>", "##l", "a</w>"}
    vocab = [t for t in model["vocab"] if t in wanted]
    merges = [m for m in model["merges"] if m[0] in wanted and m[1] in wanted][:4]
    vocab += [m[0] + m[1] for m in merges if m[0] + m[1] in model["vocab"] and m[0] + m[1] not in vocab]
    model["vocab"] = {t: i for i, t in enumerate(vocab)}
    model["merges"] = [m for m in merges if m[0] + m[1] in model["vocab"]]
    kept = content["added_tokens"][:4]
    for token in kept:
        token["id"] = model["vocab"].get(token["content"], len(vocab) + kept.index(token))
    content["added_tokens"] = kept
    post = content.get("post_processor")
    for special in (post or {}).get("special_tokens", {}).values():
        special["ids"] = [0]
    return content


def main():
    for target in ("tokenizer", "tiktoken"):
        os.makedirs(os.path.join(SEEDS, target), exist_ok=True)
    for name in sorted(os.listdir(GOLDEN)):
        if name.endswith(".json") and (not name.startswith("split_") or "regex" in name):
            content = cut(json.load(open(os.path.join(GOLDEN, name))))
            with open(os.path.join(SEEDS, "tokenizer", name), "w") as file:
                json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
    lines = [base64.b64encode(t) + b" %d\n" % (256 + i) for i, t in enumerate((b"He", b"ll", b"llo", b" w", b"\xc3\xb6"))]
    config = {"added_tokens_decoder": {"261": {"content": "[EOS]", "special": True}, "262": {"content": "x", "special": False}}}
    seeds = {"plain": b"".join(lines), "empty": b"", "named": b"".join(lines) + b"\0" + json.dumps(config).encode(),
             "bare": b"!" + b"".join(lines), "crlf": b"".join(lines).replace(b"\n", b"\r\n")}
    for name, data in seeds.items():
        with open(os.path.join(SEEDS, "tiktoken", name), "wb") as file:
            file.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
