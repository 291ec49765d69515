"""A byte-level BPE in CLIP's format, learnt from our own word list: no download, always the same."""
import json
import os

from grammar import CORPUS_WORDS

MAX_TEXT = 32
START, END = "<|startoftext|>", "<|endoftext|>"
WORD_END = "</w>"
# CLIP's way to cut text into words: contractions, letters, single digits, the rest
WORDS = r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""


def byte_symbols():
    """The printable character that stands for each byte, as GPT-2 chose them: Latin-1 where it can be seen, the
    characters from 256 on for the others."""
    seen = [b for b in range(256) if 33 <= b <= 126 or (161 <= b <= 255 and b != 173)]
    hidden = [b for b in range(256) if b not in seen]
    symbol = {b: chr(b) for b in seen} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    return [symbol[b] for b in range(256)]


def merged(symbols, pair):
    """The word's symbols with every occurrence of the pair made one."""
    out = []
    for s in symbols:
        if out and (out[-1], s) == pair and not joined:
            out[-1] += s
            joined = True
        else:
            out.append(s)
            joined = False
    return tuple(out)


def learn_merges(words, n):
    """words {word: count} -> the n merges of the most frequent neighbours, ties in alphabetical order."""
    counts = {(*word[:-1], word[-1] + WORD_END): count for word, count in words.items()}
    merges = []
    while len(merges) < n:
        pairs = {}
        for symbols, count in counts.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs:
            break
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        after = {}
        for symbols, count in counts.items():
            key = merged(symbols, merges[-1])
            after[key] = after.get(key, 0) + count
        counts = after
    return merges


def build_tokenizer(size=1024):
    """-> dict(size, bos, eos, vocab, merges, hf); hf is a fast tokenizer that behaves as CLIPTokenizer.

    Made with the `tokenizers` library itself: CLIPTokenizer's constructor breaks with some pairs of versions.
    """
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    alphabet = byte_symbols()
    base = alphabet + [s + WORD_END for s in alphabet]
    merges = learn_merges(CORPUS_WORDS, size - len(base) - 2)
    names = base + [a + b for a, b in merges] + [START, END]
    vocab = {name: i for i, name in enumerate(names)}
    if len(vocab) != len(names):
        raise ValueError("two merges make the same token: change the word list in grammar.py")
    tk = Tokenizer(BPE(vocab=dict(vocab), merges=merges, continuing_subword_prefix="", end_of_word_suffix=WORD_END,
                       fuse_unk=False, unk_token=END))
    tk.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tk.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tk.decoder = decoders.ByteLevel()
    tk.post_processor = processors.RobertaProcessing((END, vocab[END]), (START, vocab[START]), False, False)
    hf = PreTrainedTokenizerFast(tokenizer_object=tk, bos_token=START, eos_token=END, unk_token=END, pad_token=END,
                                 model_max_length=MAX_TEXT, padding_side="right")
    return dict(size=len(names), bos=vocab[START], eos=vocab[END], vocab=vocab, merges=merges, hf=hf)


def save_tokenizer(tok, folder):
    os.makedirs(folder, exist_ok=True)
    tok["hf"].save_pretrained(folder)
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump(tok["vocab"], f, ensure_ascii=False)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in tok["merges"]))
