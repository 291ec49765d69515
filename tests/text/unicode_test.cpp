#include "text/unicode.h"

#include "text/clean.h"

#include <gtest/gtest.h>

namespace sam3::unicode {
namespace {

TEST(Unicode, DecodesWhatItEncodesForEveryCodePoint) {
    for (char32_t c = 0; c < 0x110000; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        std::string bytes;
        append_utf8(bytes, c);
        ASSERT_EQ(from_utf8(bytes), std::u32string(1, c));
    }
}

TEST(Unicode, BrokenBytesBecomeReplacementCharacters) {
    EXPECT_EQ(from_utf8("a\xff"
                        "b"),
              U"a\uFFFDb");
    EXPECT_EQ(from_utf8("\xe2\x82"), U"\uFFFD");                  // cut short: one
    EXPECT_EQ(from_utf8("\xed\xa0\x80"), U"\uFFFD\uFFFD\uFFFD");  // a surrogate: one a byte
    EXPECT_EQ(from_utf8("\xc0\xaf"), U"\uFFFD\uFFFD");            // overlong
    EXPECT_EQ(from_utf8("\xf0\x9f\x90x"), U"\uFFFDx");
}

TEST(Unicode, CountsLettersAndNumbersOfUnicode16) {
    size_t letters = 0, numbers = 0;
    for (char32_t c = 0; c < 0x110000; ++c) {
        letters += is_letter(c) ? 1 : 0;
        numbers += is_number(c) ? 1 : 0;
        ASSERT_FALSE(is_letter(c) && is_number(c)) << static_cast<uint32_t>(c);
    }
    EXPECT_EQ(letters, 141028U);
    EXPECT_EQ(numbers, 1911U);
}

TEST(Unicode, LowersAllAlphabets) {
    EXPECT_EQ(lower(U"AZaz09ÀÞŸŽΑΩДЁԱ𐐀Ⅷ"), U"azaz09àþÿžαωдёա𐐨ⅷ");
    EXPECT_EQ(lower(U"\u0130"), U"i\u0307");
    EXPECT_EQ(lower(U"ß×÷狗"), U"ß×÷狗");
    EXPECT_EQ(lower(U"ĀāĂă"), U"āāăă");
}

TEST(Unicode, ComposesCanonically) {
    EXPECT_EQ(compose(U"e\u0301"), U"é");
    EXPECT_EQ(compose(U"\u212B"), U"Å");               // one code point for another
    EXPECT_EQ(compose(U"a\u0301\u0323"), U"ạ\u0301");  // marks in the order of their classes
    EXPECT_EQ(compose(U"e\u0302\u0301"), U"ế");        // two steps
    EXPECT_EQ(compose(U"\u1100\u1161\u11A8"), U"각");
    EXPECT_EQ(compose(U"각가"), U"각가");
    EXPECT_EQ(compose(U"\u0958"), U"\u0915\u093C");    // excluded from composition
    EXPECT_EQ(compose(U"a\u0315\u0300"), U"à\u0315");  // not blocked
    EXPECT_EQ(compose(U"\u0301a"), U"\u0301a");
    EXPECT_EQ(compose(U"e\u0301\u0301"), U"é\u0301");  // blocked by its equal
}

TEST(Clean, UnescapesHtmlAsPythonDoes) {
    const std::pair<std::u32string, std::u32string> cases[] = {
        {U"&amp;", U"&"},
        {U"&ampfoo;", U"&foo;"},
        {U"&notit;", U"¬it;"},
        {U"&hearts;", U"♥"},
        {U"&hearts", U"&hearts"},
        {U"&#39;", U"'"},
        {U"&#x27", U"'"},
        {U"&#150;", U"–"},
        {U"&#0;", U"\uFFFD"},
        {U"&#x110000;", U"\uFFFD"},
        {U"&#99999999999999;", U"\uFFFD"},
        {U"&#8;", U""},
        {U"&#;", U"&#;"},
        {U"&", U"&"},
        {U"&&lt;", U"&<"},
        {U"&bogus;", U"&bogus;"},
    };
    for (const auto& [text, expected] : cases) EXPECT_EQ(unescape_html(text), expected) << to_utf8(text);
}

TEST(Clean, FollowsTheRulesOfEachTokenizer) {
    EXPECT_EQ(clean_like_transformers(U"A\u00A0\t B’s &amp; ΟΔΟΣ"), U"a b’s &amp; οδοσ");
    EXPECT_EQ(clean_like_original(U"A\u00A0\t B’s &amp;amp; ΟΔΟΣ ﬁn ＡＢ\x01"), U"a b's & οδος fin ab");
}

}  // namespace
}  // namespace sam3::unicode
