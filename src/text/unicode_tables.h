#pragma once

#include <cstddef>
#include <cstdint>

// Data for text/unicode.h, sorted by the first member of each row; written by scripts/make-unicode-tables.
namespace sam3::unicode {

template <typename Row>
struct Table {
    const Row* rows;
    size_t size;
    const Row* begin() const { return rows; }
    const Row* end() const { return rows + size; }
};

struct Range {
    char32_t first, last;
};
struct CaseRun {  // every step-th code point of [first, last] becomes itself + delta
    char32_t first, last;
    uint32_t step;
    int32_t delta;
};
struct CombiningRun {
    char32_t first, last;
    int combining_class;
};
struct Pair {
    char32_t from, to;
};
struct Decomposition {
    char32_t composed, first, second;  // second is 0 where one code point stands for another
};
struct Composition {
    char32_t first, second, composed;
};
struct Entity {
    const char* name;
    char32_t code_point;
    bool semicolon_optional;
};

extern const Table<Range> kLetters;  // categories L*
extern const Table<Range> kNumbers;  // categories N*
extern const Table<CaseRun> kLowerCase;
extern const Table<CombiningRun> kCombining;
extern const Table<Pair> kWidths;  // half-width and full-width forms
extern const Table<Decomposition> kDecompositions;
extern const Table<Composition> kCompositions;
extern const Table<Entity> kEntities;  // of HTML 4

}  // namespace sam3::unicode
