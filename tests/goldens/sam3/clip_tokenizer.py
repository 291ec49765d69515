"""The CLIP tokenizer that SAM 3 uses, as files: vocab.json, merges.txt, tokenizer.json, tokenizer_config.json."""
import gzip
import json
import os

MERGES = 49152 - 256 - 2  # of the merges in the published list, those the text encoder was trained with
START, END = "<|startoftext|>", "<|endoftext|>"
PATTERN = r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""


def byte_symbols():
    """One printable character for each byte, in the order the vocabulary lists them: printable bytes first."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


def read_merges(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")
    return [tuple(line.split()) for line in lines[1:1 + MERGES]]


def build_tokenizer(vocabulary, merges, folder):
    """Writes the files for a vocabulary {token: id} and a list of pairs. Returns the tokenizer."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(BPE(vocab=vocabulary, merges=merges, continuing_subword_prefix="", end_of_word_suffix="</w>",
                         unk_token=END))
    core.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "removed", invert=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.RobertaProcessing((END, vocabulary[END]), (START, vocabulary[START]), False, False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token=START, eos_token=END, unk_token=END,
                                        pad_token=END, model_max_length=32, padding_side="right")
    tokenizer.save_pretrained(folder)
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump(vocabulary, file, ensure_ascii=False)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    return tokenizer


def write_tokenizer(bpe_path, folder):
    """`bpe_path`: bpe_simple_vocab_16e6.txt.gz. Returns the tokenizer."""
    merges = read_merges(bpe_path)
    symbols = byte_symbols()
    pieces = symbols + [s + "</w>" for s in symbols] + ["".join(m) for m in merges] + [START, END]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    assert len(vocabulary) == 49408, len(vocabulary)
    tokenizer = build_tokenizer(vocabulary, merges, folder)
    assert tokenizer("a dog's tail")["input_ids"] == [49406, 320, 1929, 568, 4132, 49407]
    return tokenizer
