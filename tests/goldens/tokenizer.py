"""Writes tests/data/text: phrases with the ids that the reference tokenizers give them.

    python tests/goldens/tokenizer.py CLIP_VOCABULARY OWN_TOKENIZER_FOLDER

CLIP_VOCABULARY is CLIP's bpe_simple_vocab_16e6.txt.gz; OWN_TOKENIZER_FOLDER holds another tokenizer of the same kind as
vocab.json and merges.txt. The committed clip_cut.json is CLIP's tokenizer cut down to the merges that these phrases use,
under their true ids: a merge that never applies cannot change the result, so the ids stay those of the whole vocabulary.
"""

import gzip
import html
import json
import pathlib
import random
import sys
import unicodedata

import regex
from tokenizers import processors
from transformers import CLIPTokenizer

LENGTH = 32
START, END = "<|startoftext|>", "<|endoftext|>"

PHRASES = [
    "", " ", "\t\n ", "visual", "ear", "dial", "handle", "person", "yellow school bus", "player in white",
    "a dog's tail", "2024 car", "a", "I", "the striped cat", "Truck", "TRUCK", "tRuCk WHEEL", "solar panel", "ice cream",
    "man holding a red umbrella", "woman, second from the left", "the third shelf (top)", "left-most window",
    "blue & white vase", "rock'n'roll", "don't", "DON'T", "we're", "they've", "I'm", "she'll", "he'd", "it's", "'s", "'t",
    "'re", "'sun", "'''s", "''", "dogs' bowls", "o'clock", "y'all'd've", "can't've", "'LL", "rock 'n' roll",
    "1", "12", "123456789", "3.14159", "1,000,000", "v2.1", "route 66", "24/7", "½ cup", "x²", "Ⅳ", "①②③", "٣٤٥", "१२३",
    "!", "!!!", "?!?!", "...", "…", "--", "—", "#hashtag", "@user", "user@example.com", "https://example.com/a?b=c&d=e#f",
    "C++", "a/b\\c", "<b>bold</b>", "[brackets]", "{curly}", "~`^|", "$5.00", "50%", "a_b_c", "semi;colon", "\"quoted\"",
    "!'s", "a's!", "('s)", "!!a!!", "a1b2c3", "A1!B2?", "hello...world", "*starred* text", "tab\tseparated\twords",
    "line\nbreak", "  leading and trailing  ", "many     spaces", "non\u00a0breaking", "thin\u2009space", "ideographic\u3000space",
    "zero\u200bwidth", "next\u0085line", "form\ffeed", "line\u2028sep", "vertical\vtab", "unit\x1fseparator", "nul\x00byte",
    "café", "cafe\u0301", "naïve façade", "Ångström", "A\u030angstro\u0308m", "ÀÉÎÕÜ", "İstanbul", "ISTANBUL", "ı", "Straße",
    "STRASSE", "ΟΔΟΣ", "Σίσυφος", "σ Σ", "Дом у реки", "ЁЖИК", "Українська", "Þórr", "ǅungla", "ŒUVRE", "ﬁne ﬂower", "Ŀ",
    "q\u0323\u0307", "q\u0307\u0323", "a\u0301\u0323", "a\u0323\u0301", "ế", "e\u0302\u0301", "e\u0301\u0302", "\u0301alone",
    "Z̷̡a̴l̶g̵o̸", "Ω", "\u2126", "K", "\u212a", "Å", "\u212b", "\u1e9b\u0323", "ﬃ", "\u0344", "\u0958", "가각", "\u1100\u1161\u11a8",
    "狗", "黄色的校车", "一只猫", "犬と猫", "ネコ", "ﾈｺ", "ねこ", "ＡＢＣ１２３", "고양이", "학교 버스", "漢字とかな", "𠀋",
    "كلب", "سيارة حمراء", "الْعَرَبِيَّة", "חתול", "שָׁלוֹם", "बिल्ली", "कुत्ता", "แมว", "แมวสีดำ", "ẞ", "Ა", "ა",
    "con mèo", "chó con màu vàng", "Żółw", "kůň", "piłka nożna", "ñandú", "øre", "ÐÐ", "Ⴀ", "Ꭰ", "𐐀", "ⓐⒶ", "𝐀𝐁", "ª º",
    "🐶", "🐕‍🦺", "👩‍👩‍👧‍👦", "👍🏽", "🇨🇭 flag", "❤️", "😀😀😀", "dog🐶cat🐱", "☃", "™ ® ©", "→", "∑", "€100", "¥", "№ 5",
    "“curly” ‘quotes’", "dog’s", "it’s", "l’été", "«guillemets»", "‚low‛", "ʼn", "ŉ",
    "&amp;", "&amp;amp;", "&amp;amp;amp;", "black &amp; white", "&lt;tag&gt;", "&quot;x&quot;", "&#39;s", "&#x27;s", "caf&eacute;",
    "caf&eacute", "&nbsp;x", "&copy; 2024", "&notit;", "&bogus;", "&", "&;", "&#;", "&#x;", "&#150;", "&#x110000;", "&#0;",
    "&ampfoo;", "a&ltb", "&apos;s", "AT&T", "Q&A", "&hearts;", "&Alpha;&Omega;", "&#128054;", "&#xD800;", "&#8;",
    START, END, "a" + END + "b", END + END, START + " dog", "dog <|endoftext|> cat", "<|EndOfText|>", "!<|STARTOFTEXT|>!!",
    "<|endoftext", "<start_of_text>", "a <end_of_text> b", "<START_OF_TEXT>", "<|endoftext|><|startoftext|>x",
    "antidisestablishmentarianism", "pneumonoultramicroscopicsilicovolcanoconiosis", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abcabcabcabcabcabcabcabcabcabcabc", "supercalifragilisticexpialidocious", "zzyzx", "qwertyuiop", "xkcd",
    "the " * 29, "the " * 30, "the " * 31, "dog " * 400, "word" * 300, "é" * 100, "🐶" * 40, "1" * 50, "! " * 60,
    "a photo of a very large brown dog that sits on a wooden bench beside a man in a blue shirt and reads a newspaper "
    "while two children play with a red ball in the park behind them and a bus passes by",
]
BROKEN = [
    b"\xff", b"abc\x80def", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x", b"\xf0\x9f\x90", b"\xed\xa0\x80", b"\xc0\xaf",
    b"\xf5\x80\x80\x80", b"dog\xf0\x9f\x90\xb6cat\xfe", b"\xe0\x80\x80", b"\xf4\x90\x80\x80", b"\x80\x80",
]
ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABC xyz '", "áàâäãåçéèêëíïñóöøúüýÿ ", "абвгдежзийклмнопрст ", "αβγδεζηθικλμνξοπρτυφχψω ",
    "0123456789.,- ", "!?.,:;'\"()[]<>&|/", "日本語漢字中文字符 ", "あいうえおアイウエオ", "ابتثجحخدذر ", "אבגדהוזחט ", "가나다라마바사 ",
    "🐶🐱🚗🌲🍎👍🏽\u200d ", "e\u0301a\u0300o\u0308\u0323 ", " \t\n\u00a0\u2003a",
]
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
LIGATURES = {c: unicodedata.normalize("NFKC", c) for c in "ĲĳŉǄǅǆǇǈǉǊǋǌǱǲǳﬀﬁﬂﬃﬄﬆ"} | {"ﬅ": "ſt"}


def make_roberta_processing(original):
    """tokenizers 0.23 calls the argument cls_token, transformers 5.12 still passes cls."""

    def make(**arguments):
        return original(**{"cls_token" if name == "cls" else name: value for name, value in arguments.items()})

    return make


processors.RobertaProcessing = make_roberta_processing(processors.RobertaProcessing)


def generated(count):
    """Phrases of mixed alphabets, the same in every run."""
    source = random.Random(7)
    for _ in range(count):
        parts = source.choices(ALPHABETS, k=source.randint(1, 3))
        yield "".join(source.choice(source.choice(parts)) for _ in range(source.randint(1, 24)))


def byte_symbols():
    """{byte: symbol} in the order of CLIP's vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}


def clip_files(path):
    merges = [tuple(line.split()) for line in gzip.open(path, "rt", encoding="utf-8").read().split("\n")[1:48895]]
    symbols = list(byte_symbols().values())
    tokens = symbols + [s + "</w>" for s in symbols] + ["".join(m) for m in merges] + [START, END]
    return {token: i for i, token in enumerate(tokens)}, merges


def plain(text):
    """The part of ftfy that the C++ code has."""
    out = ""
    for c in text:
        for d in LIGATURES.get(c, c):
            if d in "\u2018\u2019\u201a\u201b\u02bc":
                d = "'"
            elif d in "\u201c\u201d\u201e\u201f":
                d = '"'
            elif d == "\u3000" or "\uff01" <= d <= "\uffee":
                d = unicodedata.normalize("NFKC", d)
            if unicodedata.category(d) == "Cc" and (d < " " or d == "\x7f") and d not in "\t\n\f\r":
                continue
            out += d
    return unicodedata.normalize("NFC", out)


class Original:
    """Meta's tokenizer, written from its rules, with `plain` for ftfy; counts which merges it used."""

    def __init__(self, vocabulary, merges):
        self.vocabulary, self.ranks, self.used = vocabulary, {m: i for i, m in enumerate(merges)}, set()
        self.symbols = byte_symbols()
        self.pattern = regex.compile("<start_of_text>|<end_of_text>|" + WORDS, regex.IGNORECASE)

    def word(self, word):
        if word in ("<start_of_text>", "<end_of_text>"):
            return [self.vocabulary[START if "start" in word else END]]
        parts = [self.symbols[b] for b in word.encode("utf-8")]
        parts[-1] += "</w>"
        while True:
            ranked = [(self.ranks[p], i) for i, p in enumerate(zip(parts, parts[1:])) if p in self.ranks]
            if not ranked:
                return [self.vocabulary[p] for p in parts]
            i = min(ranked)[1]
            self.used.add((parts[i], parts[i + 1]))
            parts[i : i + 2] = [parts[i] + parts[i + 1]]

    def encode(self, text):
        text = html.unescape(html.unescape(plain(text)))
        text = regex.sub(r"\s+", " ", text).strip().lower()
        ids = [i for word in self.pattern.findall(text) for i in self.word(word)]
        return [self.vocabulary[START], *ids[: LENGTH - 2], self.vocabulary[END]]


def hugging_face(tokenizer, text):
    return tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]


def write(path, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text.replace("},{", "},\n{") + "\n", encoding="utf-8")


def main():
    clip_path, own = sys.argv[1], pathlib.Path(sys.argv[2])
    folder = pathlib.Path(__file__).parent.parent / "data/text"
    (folder / "own").mkdir(parents=True, exist_ok=True)
    vocabulary, merges = clip_files(clip_path)
    clip = CLIPTokenizer(vocab=vocabulary, merges=merges)
    own_vocabulary = json.loads((own / "vocab.json").read_text(encoding="utf-8"))
    own_lines = (own / "merges.txt").read_text(encoding="utf-8").splitlines()
    own_merges = [tuple(line.split()) for line in own_lines if not line.startswith("#version")]
    own_clip = CLIPTokenizer(vocab=own_vocabulary, merges=own_merges)
    original = Original(vocabulary, merges)

    cases = []
    texts = [(p, p.encode()) for p in dict.fromkeys(PHRASES + list(generated(120)))]
    texts += [(b.decode("utf-8", "replace"), b) for b in BROKEN]
    for text, raw in texts:
        case = {"text": text} if raw == text.encode() else {"hex": raw.hex()}
        case["transformers"] = hugging_face(clip, text)
        case["original"] = original.encode(text)
        case["own"] = hugging_face(own_clip, text)
        cases.append(case)
        normal = clip.backend_tokenizer.normalizer.normalize_str(text)
        for part in normal.replace(START, " ").replace(END, " ").split(" "):
            for word in regex.findall(WORDS, part):
                original.word(word)  # marks the merges that Hugging Face's rules need
        for word in ("<|", "startoftext", "endoftext", "|>"):
            original.word(word)

    used = [m for m in merges if m in original.used]
    symbols = list(byte_symbols().values())
    keep = symbols + [s + "</w>" for s in symbols] + ["".join(m) for m in used] + [START, END]
    cut = {token: vocabulary[token] for m in used for token in m} | {token: vocabulary[token] for token in keep}
    cut_clip = CLIPTokenizer(vocab=cut, merges=used)
    for case, (text, _) in zip(cases, texts):
        assert hugging_face(cut_clip, text) == case["transformers"], text

    write(folder / "phrases.json", cases)
    write(folder / "clip_cut.json", {
        "added_tokens": [{"id": vocabulary[t], "content": t} for t in (START, END)],
        "model": {"type": "BPE", "end_of_word_suffix": "</w>", "vocab": cut, "merges": [" ".join(m) for m in used]},
    })
    (folder / "own/vocab.json").write_text(json.dumps(own_vocabulary, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "own/merges.txt").write_text("\n".join(own_lines) + "\n", encoding="utf-8")
    print(len(cases), "phrases,", len(used), "merges of", len(merges))


if __name__ == "__main__":
    main()
