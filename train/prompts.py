"""Prompts for scenes: phrases as token ids, and box exemplars, without touching strings during training."""
import torch

from grammar import (ARTICLES_PLURAL, ARTICLES_SINGULAR, COLOUR_WORDS, COLOURS, FILL_WORDS, FILLS, GENERIC, PLURAL,
                     SHAPE_WORDS, SHAPES, SIZE_WORDS, VISUAL, grammar_words)

KEYS = ("shape", "colour", "fill", "size")
VALUES = {"shape": len(SHAPES), "colour": len(COLOURS), "fill": len(FILLS), "size": 3}
MEDIUM = 1       # a size that no prompt names
NO_BOX = -10     # label of an unused exemplar slot, as in transformers
TEXT, BOX, TEXT_AND_NOT, TEXT_AND_BOX = range(4)  # kinds of prompts


def at(x, i):
    """x [M,N], i [M] -> [M]"""
    return x.gather(1, i[:, None])[:, 0]


class Prompts:
    def __init__(self, tokenizer, device):
        self.device = torch.device(device)
        self.bos, self.eos = tokenizer["bos"], tokenizer["eos"]
        self.word_id = {}
        for word in grammar_words():
            ids = tokenizer["hf"](word)["input_ids"]
            if len(ids) != 3:
                raise ValueError(f"the grammar's word {word!r} must be one token, but the tokenizer makes {ids}: "
                                 "give it more merges in tokenizer.py")
            self.word_id[word] = ids[1]
        self.id_word = {i: w for w, i in self.word_id.items()}
        nouns = [SHAPE_WORDS[s] for s in SHAPES] + [GENERIC]
        self.noun = self.table(nouns)
        self.nouns = self.table([[PLURAL[w] for w in row] for row in nouns])
        self.adjective = {"size": self.table([SIZE_WORDS["small"], SIZE_WORDS["small"], SIZE_WORDS["large"]]),
                          "fill": self.table([FILL_WORDS[f] for f in FILLS]),
                          "colour": self.table([COLOUR_WORDS[c] for c in COLOURS])}
        self.article = self.ids_of(ARTICLES_SINGULAR)
        self.articles = self.ids_of(ARTICLES_PLURAL)
        self.visual = self.word_id[VISUAL]

    def ids_of(self, words):
        return torch.tensor([self.word_id[w] for w in words], device=self.device)

    def table(self, rows):
        """Token ids [values, synonyms] and how often each synonym is used: the first word most of the time."""
        width = max(len(r) for r in rows)
        ids, often = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width)
        for i, row in enumerate(rows):
            for j, word in enumerate(row):
                ids[i, j] = self.word_id[word]
                often[i, j] = 0.72 if j == 0 else 0.28 / (len(row) - 1)
        return ids.to(self.device), often.to(self.device)

    @staticmethod
    def say(table, value, rng):
        ids, often = table
        return ids[value, rng.pick(often[value])]

    def pack(self, slots):
        """slots [M,k] with -1 for nothing -> ids [M,k+2], mask [M,k+2]: <start> words <end> padding"""
        M = slots.shape[0]
        slots = torch.cat([slots.new_full((M, 1), self.bos), slots, slots.new_full((M, 1), self.eos)], 1)
        order = ((slots < 0).long() * 100 + torch.arange(slots.shape[1], device=slots.device)).argsort(1)
        slots = slots.gather(1, order)
        return torch.where(slots >= 0, slots, self.eos), slots >= 0

    def text(self, ids, mask):
        return " ".join(self.id_word[int(i)] for i, m in zip(ids, mask) if m and int(i) in self.id_word)

    # ---- what is asked for ------------------------------------------------------------------------------
    def concept(self, have, ok, rng, miss):
        """The attributes that a prompt names: those of one object, or (share `miss`) a near miss of it, where one
        named attribute is another object's or any other. -> values {key: [M]}, named {key: [M] bool}, anchor [M]"""
        M = ok.shape[0]
        anchor, other = rng.pick(ok.float()), rng.pick(ok.float())
        value = {k: at(have[k], anchor) for k in KEYS}
        named = {k: rng.bern(p, M) for k, p in (("shape", 0.72), ("colour", 0.58), ("fill", 0.28), ("size", 0.25))}
        near = rng.bern(miss, M)
        chance = torch.stack([named[k].float() for k in KEYS], 1) + 1e-4
        changed = (rng.pick(chance), rng.pick(chance))
        again = rng.bern(0.3, M)
        for i, k in enumerate(KEYS):
            shifted = (value[k] + 1 + rng.randint(VALUES[k] - 1, M)) % VALUES[k]
            swap = torch.where(rng.bern(0.55, M), at(have[k], other), shifted)
            value[k] = torch.where(near & ((changed[0] == i) | (again & (changed[1] == i))), swap, value[k])
        named["size"] &= value["size"] != MEDIUM
        return value, named, anchor

    @staticmethod
    def fits(have, value, named, keys=KEYS):
        m = torch.ones_like(have["shape"], dtype=torch.bool)
        for k in keys:
            m &= ~named[k][:, None] | (have[k] == value[k][:, None])
        return m

    def words(self, value, named, rng):
        """-> token slots [M,5]: article, three adjectives, noun"""
        M = value["shape"].shape[0]
        nothing = torch.full((M,), -1, dtype=torch.long, device=self.device)
        row = torch.where(named["shape"], value["shape"], len(SHAPES))
        plural = rng.bern(0.25, M)
        noun = torch.where(plural, self.say(self.nouns, row, rng), self.say(self.noun, row, rng))
        adjectives = torch.stack([torch.where(named[k], self.say(self.adjective[k], value[k], rng), nothing)
                                  for k in ("size", "fill", "colour")], 1)
        # mostly in this order
        place = torch.arange(3, device=self.device)[None] + torch.where(rng.bern(0.2, M, 1), 3.0, 0.3) * rng.rand(M, 3)
        adjectives = adjectives.gather(1, place.argsort(1))
        article = torch.where(plural, self.articles[rng.randint(len(self.articles), M)],
                              self.article[rng.randint(len(self.article), M)])
        article = torch.where(rng.bern(0.25, M), article, nothing)
        return torch.cat([article[:, None], adjectives, noun[:, None]], 1)

    @torch.no_grad()
    def sample(self, scene, P, rng, boxes=True, miss=0.5):
        """P prompts for each of B scenes, prompt-major: row m belongs to scene m % B. With `boxes` the first B rows
        carry exemplars.

        -> ids, mask [M,7]; match [M,N] which objects are meant; unsure [M] an object that nobody can be sure of
           would fit; named [M,4]; kind [M]; boxes [B,2,4] cxcywh, labels [B,2] (1, 0 or NO_BOX)
        """
        B = scene["shape"].shape[0]
        have = {k: scene[k].repeat(P, 1) for k in KEYS}
        ok, maybe = scene["ok"].repeat(P, 1), scene["unsure"].repeat(P, 1)
        value, named, anchor = self.concept(have, ok, rng, miss)
        # a medium object that fits the rest would make "small" or "large" a matter of taste: leave the size out
        rest = self.fits(have, value, named, ("shape", "colour", "fill"))
        named["size"] &= ~((ok | maybe) & rest & (have["size"] == MEDIUM)).any(1)
        fits = self.fits(have, value, named)
        match, unsure = ok & fits, (maybe & fits).any(1)
        slots = self.words(value, named, rng)
        out = dict(kind=torch.full_like(anchor, TEXT), boxes=None, labels=None)
        if boxes:
            first = {k: v[:B] for k, v in have.items()}
            ex = self.exemplars(scene, first, anchor[:B], match[:B], rng)
            kind = ex["kind"]
            alone = (kind == BOX)[:, None]
            visual = torch.full_like(slots[:B], -1)
            visual[:, -1] = self.visual
            slots = torch.cat([torch.where(alone, visual, slots[:B]), slots[B:]])
            match = torch.cat([ex["match"], match[B:]])
            unsure = torch.cat([torch.where(kind == BOX, ex["unsure"], unsure[:B]), unsure[B:]])
            out.update(kind=torch.cat([kind, out["kind"][B:]]), boxes=ex["boxes"], labels=ex["labels"])
        ids, mask = self.pack(slots)
        return dict(out, ids=ids, mask=mask, match=match, unsure=unsure, named=torch.stack([named[k] for k in KEYS], 1))

    # ---- boxes ------------------------------------------------------------------------------------------
    def exemplars(self, scene, have, anchor, match, rng):
        """A box alone means "everything of this shape and colour"; with a phrase it adds to it, or, as a negative,
        takes its like away."""
        B = anchor.shape[0]
        ok = scene["ok"]

        def like(i):
            return (have["shape"] == at(have["shape"], i)[:, None]) & (have["colour"] == at(have["colour"], i)[:, None])

        u = rng.rand(B)
        kind = BOX + (u > 0.64).long() + (u > 0.82).long()
        kind = torch.where(match.any(1), kind, BOX)  # a box on what the phrase means needs something that it means
        same = ok & like(anchor)
        picked = rng.pick(match.float())
        first = torch.where(kind == BOX, anchor, picked)
        second = rng.pick(same.float())
        two = (kind == BOX) & (second != first) & rng.bern(0.5, B)
        boxes = torch.stack([self.loose_box(scene["boxes"], i, rng) for i in (first, second)], 1)
        labels = torch.stack([torch.where(kind == TEXT_AND_NOT, 0, 1), torch.where(two, 1, NO_BOX)], 1)
        boxes = boxes * (labels != NO_BOX)[..., None]
        meant = torch.where((kind == BOX)[:, None], same, match)
        meant = torch.where((kind == TEXT_AND_NOT)[:, None], match & ~like(picked), meant)
        return dict(kind=kind, boxes=boxes, labels=labels, match=meant,
                    unsure=(scene["unsure"] & like(anchor)).any(1))

    @staticmethod
    def loose_box(boxes, i, rng):
        """The box [B,4] of object i, drawn as a hand would, as cxcywh."""
        b = boxes.gather(1, i[:, None, None].expand(-1, 1, 4))[:, 0]
        b = (b + 0.05 * rng.randn(b.shape[0], 4) * (b[:, 2:] - b[:, :2]).repeat(1, 2)).clamp(0, 1)
        lo, hi = torch.minimum(b[:, :2], b[:, 2:]), torch.maximum(b[:, :2], b[:, 2:])
        return torch.cat([(lo + hi) / 2, (hi - lo).clamp(min=0.01)], 1)
