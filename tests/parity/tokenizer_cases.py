"""Texts and small tokenizers for the comparisons with the `tokenizers` and `tiktoken` libraries.

Everything here is a function of a seed, so that golden files can be made again.
"""
import base64
import gzip
import io
import json
import os
import random
import struct
import tarfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The quick brown fox jumps over the lazy dog. It's 1,234.56 dollars, isn't it? WE'LL SEE; they'd've known.",
    "def f(x):\n\treturn {k: v**2 for k, v in x.items() if v != 0x1F}  # naïve café\n",
    "生活的真谛是宽恕与忘记。今天天气很好，我们去公园散步吧！第１２３章：机器学习２０２４年",
    "日本語のテキストです。カタカナとひらがなと漢字が混ざっています。ー〜・「」",
    "안녕하세요. 오늘은 날씨가 좋습니다. 한국어 문장입니다.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЖИК",
    "مرحبا بالعالم، هذا نص عربي ١٢٣٤٥. שלום עולם",
    "नमस्ते दुनिया, यह हिन्दी का वाक्य है। १२३ ไทยภาษา ၁၂၃",
    "👩‍👩‍👧‍👦 family 👨🏽‍💻 coder 🏳️‍🌈 flag 🇫🇷🇩🇪 keycap 1️⃣ ❤️ ☃️ 🤷🏻‍♀️",
    "e\u0301 a\u0308\u0323 o\u0323\u0308 \u1e9b\u0323 \ufb01 \u212b \u2126 ½ ² ⅷ Ǆ ǅ ﬃ İı ſ K \u0344 \u0958",
    "  leading, trailing  \t tabs\t\t and \u00a0nbsp\u3000ideographic\u2003em  \n\n\r\n\r \n x\u0085y\u2028z\u2029w\u180e.",
    "a_b-c/d\\e|f~g`h@i#j$k%l^m&n*o(p)q[r]s{t}u<v>w=x+y'z\"!?;:,.",
    "1 12 123 1234 12345 1234567890 ٣٤ ४५ Ⅳ ④ ½ 1st 2nd 0xdeadBEEF 1e-10 3.14159",
    "HTTPServer XMLHttpRequest camelCase snake_case SCREAMING_CASE iPhone McDonald's O'Neill don't DON'T 'tis 'S 'LL",
    "<s>hello</s> <unk> <|endoftext|> x<|im_start|>user\n <|user|>  \n hi <mask> tail<mask> <0x0A> ▁under▁score▁",
    "\u200d\u200c zero\u200bwidth \ufeffbom \u0000nul \u0001\u001f ctrl \u007f \ufffd \ufffe \U0010ffff \U0001d54f",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa----------======",
    "                                                                            many spaces\n\n\n\n\n\n\n\n\t\t\t\t\t",
]

INTERESTING = (
    " \t\n\r\u00a0\u3000\u2581'’\".,;:!?-_()[]{}<>|/\\@#$%^&*+=~`"
    "aAbBeEsStTmMdDlLvVrRzZ0123456789éÉßſİıÇñøŒДдЖжΣσςπאבجد中国人的一是日本語カナひ한국어"
    "\u0301\u0308\u0323\u0334\u200d\u200c\ufe0f😀👩💻🇫🇷½²Ⅷ٣४\u0e34\u1100\u1161\u11a8\U00020000\U0001f3fd\U000e0067"
)


def random_text(rng, length, kind):
    """A text of about `length` characters."""
    if kind == "planes":
        points = []
        while len(points) < length:
            plane = rng.choice([0, 0, 0, 1, 1, 2, 3, 14, 15, 16])
            c = plane * 0x10000 + rng.randrange(0x10000)
            if not 0xD800 <= c <= 0xDFFF:
                points.append(chr(c))
        return "".join(points)
    if kind == "bmp_words":
        out = []
        while len(out) < length:
            base = rng.randrange(0x20, 0x3000)
            out += [chr(base + rng.randrange(16)) for _ in range(rng.randrange(1, 8))] + [" "]
        return "".join(out)
    if kind == "interesting":
        return "".join(rng.choice(INTERESTING) for _ in range(length))
    if kind == "spaces":
        return "".join(rng.choice([" ", "  ", "    ", "\t", "\n", "\r\n", "\r", "a", "x y", "\u3000", "."])
                       for _ in range(length))
    if kind == "marks":
        return "".join(chr(rng.choice([rng.randrange(0x300, 0x370), rng.randrange(0x61, 0x7B), 0x20,
                                       rng.randrange(0x900, 0xA00), rng.randrange(0x1AB0, 0x1B00),
                                       rng.randrange(0x1100, 0x1200), rng.randrange(0xAC00, 0xAD00)]))
                       for _ in range(length))
    words = " ".join(SENTENCES).split(" ")
    return " ".join(rng.choice(words) for _ in range(length // 6))


def with_tokens(rng, text, tokens):
    """The text with tokens put in here and there, with and without spaces around them."""
    if not tokens:
        return text
    out = []
    for piece in text.split(" "):
        out.append(piece)
        if rng.random() < 0.2:
            out.append(rng.choice(["", " ", "  ", "\n", "x"]) + rng.choice(tokens) + rng.choice(["", " ", " \n ", "x"]))
        out.append(" ")
    return "".join(out)


def small_texts(seed, count, tokens):
    """Bytes to encode: the fixed sentences, random ones, and invalid UTF-8."""
    rng = random.Random(seed)
    kinds = ["planes", "bmp_words", "interesting", "spaces", "marks", "words"]
    texts = [""] + SENTENCES + [s.split(" ")[0] for s in SENTENCES] + ["\n".join(SENTENCES)]
    texts += [t + s for t in tokens for s in ("", " x", "x")] + [s + t for t in tokens for s in (" ", "x", "  ")]
    for i in range(count):
        texts.append(with_tokens(rng, random_text(rng, rng.randrange(1, 200), kinds[i % len(kinds)]), tokens))
    result = [t.encode() for t in texts]
    for i in range(count // 4):
        raw = bytearray(random_text(rng, 60, "interesting").encode())
        for _ in range(rng.randrange(1, 8)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        result.append(bytes(raw[: rng.randrange(1, len(raw))]))
    return result


def corpus(data, limit):
    """Real texts: prose, documentation, code."""
    folder = os.path.join(data, "corpora")
    texts = []
    for name in ("wikitext-2.valid.txt.gz", "tinyshakespeare.txt.gz", "tinystories_sample.txt.gz", "jargon.txt.gz"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            texts.append(gzip.open(path).read()[: limit // 5])
    for name in ("python3.11-stdlib-src.tar.gz", "python3.11-doc.rst.tar.gz"):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        source = b""
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and len(source) < limit // 4:
                    source += archive.extractfile(member).read()
        texts.append(source)
    return texts


def mixed_text(data, bytes_wanted, seed=1, tokens=()):
    """A list of texts, together at least bytes_wanted: corpora and everything above."""
    rng = random.Random(seed)
    texts = corpus(data, bytes_wanted)
    for kind in ("planes", "bmp_words", "interesting", "spaces", "marks", "words"):
        texts.append(random_text(rng, 60000, kind).encode())
    texts.append(with_tokens(rng, random_text(rng, 200000, "words"), list(tokens)).encode())
    raw = bytearray(random_text(rng, 100000, "interesting").encode())
    for _ in range(20000):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    texts.append(bytes(raw))
    texts.append(rng.randbytes(200000))
    shuffled = [s for s in SENTENCES for _ in range(40)]
    while sum(map(len, texts)) < bytes_wanted:
        rng.shuffle(shuffled)
        texts.append("\n".join(shuffled).encode())
    return texts


# ------------------------------------------------------------------ small tokenizers

GPT2_LIKE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = GPT2_LIKE.replace(r"\p{N}|", r"\p{N}{1,3}|")
KIMI_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?" + KIMI_UPPER + "*" + KIMI_LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?" + KIMI_UPPER + "+" + KIMI_LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])

# gpt-oss: Kimi's without a rule for Han, and with slashes behind punctuation.
O200K_UPPER, O200K_LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?" + O200K_UPPER + "*" + O200K_LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?" + O200K_UPPER + "+" + O200K_LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])

# The letters of DeepSeek's second step: code points and ranges.
LETTER_CODES = (
    "0041-005A 0061-007A 00B5 00C0-00D6 00D8-00F6 00F8-01BA 01BC-01BF 01C4-0293 0295-02AF 0370-0373 0376 "
    "0377 037B-037D 037F 0386 0388-038A 038C 038E-03A1 03A3-03F5 03F7-0481 048A-052F 0531-0556 10A0-10C5 "
    "13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 "
    "1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 "
    "1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D "
    "212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D "
    "A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A "
    "10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943 "
)
LETTERS = "".join("-".join(chr(int(c, 16)) for c in r.split("-")) for r in LETTER_CODES.split())


def deepseek_steps():
    split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([
        split("[\r\n]"), split("\\s?[" + LETTERS + "]+"), split("\\s?[!-/:-~！-／：-～‘-‟　-。]+"), split("\\s+$"),
        split("[一-龥ࠀ-一가-\ud7ff]+"), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def training_text():
    rng = random.Random(7)
    words = " ".join(SENTENCES[:9] + SENTENCES[10:14]).split(" ")
    # No NUL: our JSON reader takes none in a token.
    return [" ".join(rng.choice(words) for _ in range(400)) for _ in range(8)] + [s.replace("\0", "") for s in SENTENCES]


def trained(pre_tokenizer, size, specials=(), alphabet=None, normalizer=None, **options):
    prefix, suffix = options.get("continuing_subword_prefix"), options.get("end_of_word_suffix")
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    arguments = {"vocab_size": size, "special_tokens": list(specials), "show_progress": False}
    if alphabet is not None:
        arguments["initial_alphabet"] = sorted(alphabet)
    if prefix is not None:
        arguments["continuing_subword_prefix"] = prefix
    if suffix is not None:
        arguments["end_of_word_suffix"] = suffix
    tokenizer.train_from_iterator(training_text(), trainers.BpeTrainer(**arguments))
    return tokenizer


def byte_level(pre_tokenizer, size=420, **options):
    tokenizer = trained(pre_tokenizer, size, alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def edited(tokenizer, change):
    """The tokenizer after a change to its JSON."""
    content = json.loads(tokenizer.to_str())
    change(content)
    return Tokenizer.from_str(json.dumps(content))


def add_byte_tokens(byte_values):
    def change(content):
        vocab = content["model"]["vocab"]
        shift = len(byte_values)
        names = {f"<0x{b:02X}>": i + 1 for i, b in enumerate(byte_values)}
        moved = {t: (i if i == 0 else i + shift) for t, i in vocab.items()}
        content["model"]["vocab"] = {**names, **moved}
        for token in content["added_tokens"]:
            token["id"] = moved[token["content"]]
    return change


def sentencepiece_like(byte_values=range(256), size=500, **options):
    base = trained(pre_tokenizers.Metaspace(), size, ["<unk>", "<s>", "</s>"], unk_token="<unk>", **options)
    tokenizer = edited(base, add_byte_tokens(list(byte_values)))
    tokenizer.pre_tokenizer = None
    return edited(tokenizer, lambda c: c.update(
        pre_tokenizer=None,
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        post_processor={"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [c["model"]["vocab"]["<s>"]], "tokens": ["<s>"]}}}))


def byte_level_cases():
    gpt2 = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    deepseek = byte_level(deepseek_steps())
    deepseek.add_special_tokens(["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"])
    bos = deepseek.token_to_id("<｜begin▁of▁sentence｜>")
    deepseek.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<｜begin▁of▁sentence｜> $A", special_tokens=[("<｜begin▁of▁sentence｜>", bos)])])
    yield "deepseek", deepseek
    qwen = byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(GPT2_LIKE), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), normalizer=normalizers.NFC())
    qwen.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    qwen.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    yield "qwen3", qwen
    olmoe = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFC())
    olmoe.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    olmoe.add_special_tokens(["<|endoftext|>", "<|padding|>"])
    yield "olmoe", olmoe
    llama3 = byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    def whole_words(content):
        # Words that no merge makes: only ignore_merges finds them.
        for word in ("Ġbrown", "Ġmissingmerge", "HTTPServer"):
            content["model"]["vocab"].setdefault(word, len(content["model"]["vocab"]))
    yield "llama3", edited(llama3, whole_words)
    kimi = byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(KIMI), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    yield "kimi_pattern", kimi
    o200k = byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(O200K), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    o200k.add_special_tokens(["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"])
    yield "o200k", o200k
    prefix = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    prefix.post_processor = processors.ByteLevel(trim_offsets=True)
    prefix.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("hello", single_word=True)])
    yield "prefix_space", prefix
    digits = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=True)]))
    yield "digits", digits
    inner = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                                                   pre_tokenizers.Split(Regex("Ġ?[a-zA-Z]+|[^a-zA-Z]"), "isolated")])
    yield "byte_level_inside", inner
    def drop_bytes(content):
        vocab, merges = content["model"]["vocab"], content["model"]["merges"]
        gone = {"Ċ", "ã", "Ł"}
        content["model"]["merges"] = [m for m in merges if not any(g in "".join(m) for g in gone)]
        kept = [t for t in sorted(vocab, key=vocab.get) if not any(g in t for g in gone)]
        content["model"]["vocab"] = {t: i for i, t in enumerate(["<unk>"] + kept)}
        content["model"]["unk_token"] = "<unk>"
    yield "missing_bytes", edited(gpt2, drop_bytes)


def character_cases():
    phi = sentencepiece_like(byte_fallback=True, fuse_unk=True)
    phi.add_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
    phi.add_tokens([AddedToken(f"<|{n}|>", special=True, rstrip=True, normalized=False) for n in ("user", "assistant", "end")])
    yield "phi", phi
    yield "some_bytes", sentencepiece_like([0xC3, 0xA9, 0xE4, 0xB8, 0xAD, 0x0A], byte_fallback=True, fuse_unk=False)
    yield "fused_unknown", sentencepiece_like([], fuse_unk=True)
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            meta = trained(pre_tokenizers.Metaspace(prepend_scheme=scheme), 400, ["<unk>", "<s>"], unk_token="<unk>")
            meta.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
            meta.decoder = decoders.Metaspace(prepend_scheme=scheme)
            meta.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
            yield f"metaspace_{scheme}_{'split' if split else 'whole'}", meta
    stripped = trained(pre_tokenizers.Metaspace(prepend_scheme="first"), 400, ["<unk>"], unk_token="<unk>",
                       normalizer=normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex("[0-9]+"), "#"),
                                                        normalizers.Replace("ab", "")]))
    stripped.decoder = decoders.Metaspace(prepend_scheme="first")
    yield "metaspace_stripped", stripped
    words = trained(pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()]), 500, ["[UNK]"],
                    unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>",
                    normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]))
    words.add_tokens([AddedToken("Hello", single_word=True, normalized=True), AddedToken("É", normalized=True, special=True)])
    yield "words", words
    silent = trained(pre_tokenizers.WhitespaceSplit(), 300)
    silent.normalizer = normalizers.NFKC()
    silent.decoder = decoders.Fuse()
    yield "no_unknown", silent
    nfkd = trained(pre_tokenizers.Punctuation("contiguous"), 300, ["?"], unk_token="?", normalizer=normalizers.NFKD())
    nfkd.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex("[aeiou]+"), "_"), decoders.Strip(" ", 2, 0)])
    yield "nfkd", nfkd
    flags = trained(pre_tokenizers.Metaspace(), 350, ["<unk>"], unk_token="<unk>", normalizer=normalizers.Lowercase())
    flags.decoder = decoders.Metaspace()
    flags.add_tokens([
        AddedToken("word", single_word=True), AddedToken("[L]", lstrip=True, normalized=False),
        AddedToken("[R]", rstrip=True, normalized=False), AddedToken("[LR]", lstrip=True, rstrip=True, normalized=True),
        AddedToken("ab", normalized=False), AddedToken("abc", normalized=False), AddedToken("bcd", normalized=False),
        AddedToken("MiXed", normalized=True), AddedToken("  ", normalized=False),
        AddedToken("<s>", special=True, normalized=True), AddedToken("<SEP>", special=True, normalized=True)])
    yield "flags", flags


def split_cases():
    base = trained(None, 300, ["<unk>"], unk_token="<unk>")
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            for name, pattern in (("text", "a"), ("regex", Regex("\\w+|[^\\w\\s]")), ("empty", Regex("x*")),
                                  ("lines", Regex("^.|.$|\\b\\h{2,}"))):
                tokenizer = Tokenizer.from_str(base.to_str())
                tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, behavior, invert=invert)
                yield f"split_{behavior}_{name}{'_invert' if invert else ''}", tokenizer


def small_tokenizers():
    yield from byte_level_cases()
    yield from character_cases()
    yield from split_cases()


def added_texts(tokenizer):
    return [t.content for t in tokenizer.get_added_tokens_decoder().values()]


# ------------------------------------------------------------------ SentencePiece and tiktoken

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def protobuf_fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 2:
            length, at = varint(data, at)
            yield key >> 3, data[at : at + length]
            at += length
        elif key & 7 == 5:
            yield key >> 3, data[at : at + 4]
            at += 4
        elif key & 7 == 1:
            yield key >> 3, data[at : at + 8]
            at += 8
        else:
            value, at = varint(data, at)
            yield key >> 3, value


def from_sentencepiece(path):
    """A tokenizer.json (as text) from a SentencePiece BPE model, the way Llama-2's was made."""
    pieces = []
    for field, value in protobuf_fields(open(path, "rb").read()):
        if field == 1:
            inner = dict(protobuf_fields(value))
            pieces.append((inner[1].decode(), struct.unpack("<f", inner.get(2, bytes(4)))[0]))
    vocab = {p: i for i, (p, _) in enumerate(pieces)}
    scores = dict(pieces)
    merges = []
    for piece in vocab:
        local = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        local.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        merges += [(-scores[piece], -len(a), -len(b), a, b) for a, b in local]
    merges.sort(key=lambda m: m[:3])
    special = lambda token: {"id": vocab[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                             "normalized": False, "special": True}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [special(t) for t in ("<unk>", "<s>", "</s>")],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                       {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                  "vocab": vocab, "merges": [f"{m[3]} {m[4]}" for m in merges]}}, ensure_ascii=False)


def byte_alphabet():
    kept = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table, extra = {}, 0
    for byte in range(256):
        if byte in kept:
            table[chr(byte)] = byte
        else:
            table[chr(256 + extra)] = byte
            extra += 1
    return table


def tiktoken_ranks(size, texts=None):
    """Ranks of a byte-pair vocabulary trained with the Kimi pattern."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(KIMI), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(texts or training_text(), trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    table = byte_alphabet()
    vocab = tokenizer.get_vocab()
    tokens = [bytes(table[c] for c in t) for t in sorted(vocab, key=vocab.get)]
    return {token: rank for rank, token in enumerate(tokens)}


def tiktoken_file(ranks):
    out = io.BytesIO()
    for token, rank in ranks.items():
        out.write(base64.b64encode(token) + b" %d\n" % rank)
    return out.getvalue()


O200K_RANKS = 199998  # o200k_base is known by this number


def fill_ranks(ranks, size):
    """More ranks, of bytes that no text has."""
    filler = (bytes([0xF8 + i // 65536, i // 256 % 256, i % 256]) for i in range(4 * 65536))
    while len(ranks) < size:
        ranks.setdefault(next(filler), len(ranks))


def o200k_specials():
    """o200k_harmony's, where 200018 keeps the name it has in o200k_base."""
    from tiktoken_ext import openai_public

    base = lambda: {"special_tokens": {"<|endofprompt|>": 200018}, "pat_str": "", "mergeable_ranks": {}}
    kept, openai_public.o200k_base = openai_public.o200k_base, base
    specials = openai_public.o200k_harmony()["special_tokens"]
    openai_public.o200k_base = kept
    del specials["<|reserved_200018|>"]
    return specials


MOONLIGHT_SPECIALS = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 4: "<|im_assistant|>", 10: "<|im_system|>",
                      17: "<|im_middle|>", 254: "[PAD]", 255: "[UNK]"}


def tiktoken_specials(count):
    return {MOONLIGHT_SPECIALS.get(i, f"<|reserved_token_{count + i}|>"): count + i for i in range(256)}


def tiktoken_config(count):
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    return json.dumps({"model_max_length": 10**30, "added_tokens_decoder": {
        str(count + i): {"content": name, **flags} for i, name in MOONLIGHT_SPECIALS.items()}})
