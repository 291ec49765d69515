// Written by scripts/make-unicode-tables: change that, not this.
// clang-format off
#include "text/unicode_tables.h"

#include <iterator>

namespace sam3::unicode {

namespace {
constexpr Entity kEntitiesData[] = {
    {"AElig",198,true},{"Aacute",193,true},{"Acirc",194,true},{"Agrave",192,true},{"Alpha",913,false},
    {"Aring",197,true},{"Atilde",195,true},{"Auml",196,true},{"Beta",914,false},{"Ccedil",199,true},
    {"Chi",935,false},{"Dagger",8225,false},{"Delta",916,false},{"ETH",208,true},{"Eacute",201,true},
    {"Ecirc",202,true},{"Egrave",200,true},{"Epsilon",917,false},{"Eta",919,false},{"Euml",203,true},
    {"Gamma",915,false},{"Iacute",205,true},{"Icirc",206,true},{"Igrave",204,true},{"Iota",921,false},
    {"Iuml",207,true},{"Kappa",922,false},{"Lambda",923,false},{"Mu",924,false},{"Ntilde",209,true},
    {"Nu",925,false},{"OElig",338,false},{"Oacute",211,true},{"Ocirc",212,true},{"Ograve",210,true},
    {"Omega",937,false},{"Omicron",927,false},{"Oslash",216,true},{"Otilde",213,true},{"Ouml",214,true},
    {"Phi",934,false},{"Pi",928,false},{"Prime",8243,false},{"Psi",936,false},{"Rho",929,false},
    {"Scaron",352,false},{"Sigma",931,false},{"THORN",222,true},{"Tau",932,false},{"Theta",920,false},
    {"Uacute",218,true},{"Ucirc",219,true},{"Ugrave",217,true},{"Upsilon",933,false},{"Uuml",220,true},
    {"Xi",926,false},{"Yacute",221,true},{"Yuml",376,false},{"Zeta",918,false},{"aacute",225,true},
    {"acirc",226,true},{"acute",180,true},{"aelig",230,true},{"agrave",224,true},{"alefsym",8501,false},
    {"alpha",945,false},{"amp",38,true},{"and",8743,false},{"ang",8736,false},{"apos",39,false},{"aring",229,true},
    {"asymp",8776,false},{"atilde",227,true},{"auml",228,true},{"bdquo",8222,false},{"beta",946,false},
    {"brvbar",166,true},{"bull",8226,false},{"cap",8745,false},{"ccedil",231,true},{"cedil",184,true},
    {"cent",162,true},{"chi",967,false},{"circ",710,false},{"clubs",9827,false},{"cong",8773,false},
    {"copy",169,true},{"crarr",8629,false},{"cup",8746,false},{"curren",164,true},{"dArr",8659,false},
    {"dagger",8224,false},{"darr",8595,false},{"deg",176,true},{"delta",948,false},{"diams",9830,false},
    {"divide",247,true},{"eacute",233,true},{"ecirc",234,true},{"egrave",232,true},{"empty",8709,false},
    {"emsp",8195,false},{"ensp",8194,false},{"epsilon",949,false},{"equiv",8801,false},{"eta",951,false},
    {"eth",240,true},{"euml",235,true},{"euro",8364,false},{"exist",8707,false},{"fnof",402,false},
    {"forall",8704,false},{"frac12",189,true},{"frac14",188,true},{"frac34",190,true},{"frasl",8260,false},
    {"gamma",947,false},{"ge",8805,false},{"gt",62,true},{"hArr",8660,false},{"harr",8596,false},
    {"hearts",9829,false},{"hellip",8230,false},{"iacute",237,true},{"icirc",238,true},{"iexcl",161,true},
    {"igrave",236,true},{"image",8465,false},{"infin",8734,false},{"int",8747,false},{"iota",953,false},
    {"iquest",191,true},{"isin",8712,false},{"iuml",239,true},{"kappa",954,false},{"lArr",8656,false},
    {"lambda",955,false},{"lang",9001,false},{"laquo",171,true},{"larr",8592,false},{"lceil",8968,false},
    {"ldquo",8220,false},{"le",8804,false},{"lfloor",8970,false},{"lowast",8727,false},{"loz",9674,false},
    {"lrm",8206,false},{"lsaquo",8249,false},{"lsquo",8216,false},{"lt",60,true},{"macr",175,true},
    {"mdash",8212,false},{"micro",181,true},{"middot",183,true},{"minus",8722,false},{"mu",956,false},
    {"nabla",8711,false},{"nbsp",160,true},{"ndash",8211,false},{"ne",8800,false},{"ni",8715,false},
    {"not",172,true},{"notin",8713,false},{"nsub",8836,false},{"ntilde",241,true},{"nu",957,false},
    {"oacute",243,true},{"ocirc",244,true},{"oelig",339,false},{"ograve",242,true},{"oline",8254,false},
    {"omega",969,false},{"omicron",959,false},{"oplus",8853,false},{"or",8744,false},{"ordf",170,true},
    {"ordm",186,true},{"oslash",248,true},{"otilde",245,true},{"otimes",8855,false},{"ouml",246,true},
    {"para",182,true},{"part",8706,false},{"permil",8240,false},{"perp",8869,false},{"phi",966,false},
    {"pi",960,false},{"piv",982,false},{"plusmn",177,true},{"pound",163,true},{"prime",8242,false},
    {"prod",8719,false},{"prop",8733,false},{"psi",968,false},{"quot",34,true},{"rArr",8658,false},
    {"radic",8730,false},{"rang",9002,false},{"raquo",187,true},{"rarr",8594,false},{"rceil",8969,false},
    {"rdquo",8221,false},{"real",8476,false},{"reg",174,true},{"rfloor",8971,false},{"rho",961,false},
    {"rlm",8207,false},{"rsaquo",8250,false},{"rsquo",8217,false},{"sbquo",8218,false},{"scaron",353,false},
    {"sdot",8901,false},{"sect",167,true},{"shy",173,true},{"sigma",963,false},{"sigmaf",962,false},
    {"sim",8764,false},{"spades",9824,false},{"sub",8834,false},{"sube",8838,false},{"sum",8721,false},
    {"sup",8835,false},{"sup1",185,true},{"sup2",178,true},{"sup3",179,true},{"supe",8839,false},{"szlig",223,true},
    {"tau",964,false},{"there4",8756,false},{"theta",952,false},{"thetasym",977,false},{"thinsp",8201,false},
    {"thorn",254,true},{"tilde",732,false},{"times",215,true},{"trade",8482,false},{"uArr",8657,false},
    {"uacute",250,true},{"uarr",8593,false},{"ucirc",251,true},{"ugrave",249,true},{"uml",168,true},
    {"upsih",978,false},{"upsilon",965,false},{"uuml",252,true},{"weierp",8472,false},{"xi",958,false},
    {"yacute",253,true},{"yen",165,true},{"yuml",255,true},{"zeta",950,false},{"zwj",8205,false},
    {"zwnj",8204,false}};
}
const Table<Entity> kEntities{kEntitiesData, std::size(kEntitiesData)};

}  // namespace sam3::unicode
