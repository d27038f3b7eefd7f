"""Sentences of many languages: own examples, with the boundaries that a reader would set."""

import unicodedata
from itertools import pairwise

import pytest
import regex

from segmenters import Sentences

RULES = Sentences(backend="rules")

# "|" marks the boundaries.
LANGUAGES = {
    "French": (
        "M. Dupont est arriv\xe9 \xe0 8 h. 30. |"
        "\xab O\xf9 est-il ? \xbb demanda Mme Roy. |"
        "Il n'y a personne ! |"
        "Voir p. 12, etc. |"
        "Fin."
    ),
    "French guillemets": (
        "Elle dit : \xab Je pars. \xbb |Puis elle sortit. |C'\xe9tait av. J.-C. selon le Dr Blanc."
    ),
    "Spanish": (
        "\xbfC\xf3mo est\xe1 el Sr. Garc\xeda? |"
        "\xa1Muy bien! |"
        "La Dra. Ruiz vive en la av. Sol, n\xfam. 5. |"
        "Pesa 3,5 kg. |"
        "Adi\xf3s."
    ),
    "Italian": (
        "Il sig. Rossi \xe8 qui. |"
        "L'avv. Bianchi, cio\xe8 il dott. Verdi, no. |"
        "Costa 1.500 euro! |"
        "Perch\xe9? |"
        "Vedi art. 5."
    ),
    "Russian": (
        "\u041e\u043d \u0440\u043e\u0434\u0438\u043b\u0441\u044f \u0432 1990 \u0433. \u0432 "
        "\u041c\u043e\u0441\u043a\u0432\u0435. |"
        "\u042d\u0442\u043e \u043f\u0440\u043e\u0444. \u0418. \u0418. \u0418\u0432\u0430"
        "\u043d\u043e\u0432. |"
        "\u0413\u0434\u0435 \u043e\u043d \u0436\u0438\u0432\u0451\u0442? |"
        "\u041d\u0430 \u0443\u043b. \u041b\u0435\u043d\u0438\u043d\u0430, \u0434. 5. |"
        "\xab\u0425\u043e\u0440\u043e\u0448\u043e!\xbb |"
        "\u0414\u0430."
    ),
    "Russian speech": (
        "\u2014 \u041a\u0442\u043e \u0442\u0430\u043c? \u2014 \u0441\u043f\u0440\u043e\u0441"
        "\u0438\u043b \u043e\u043d. |"
        "\u2014 \u042f! |"
        "\u041f\u043e\u0442\u043e\u043c \u0441\u0442\u0430\u043b\u043e \u0442\u0438\u0445"
        "\u043e\u2026"
    ),
    "Dutch": (
        "Dhr. Jansen kwam om 9.30 uur. |"
        "Hij zei o.a. niets. |"
        "Waarom? |"
        "Zie blz. 4 en bijv. dit. |"
        "Klaar!"
    ),
    "Polish": (
        "Prof. Nowak mieszka przy ul. D\u0142ugiej 5. |"
        "Ma m.in. psa. |"
        "Dlaczego? |"
        "Urodzi\u0142 si\u0119 w 1990 r. w \u0141odzi. |"
        "Tak!"
    ),
    "Portuguese": (
        "O Dr. Souza chegou \xe0s 10h. |"
        "A Sra. Lima n\xe3o veio. |"
        "Por qu\xea? |"
        "Custa R$ 3.50. |"
        "N\xe3o sei!"
    ),
    "German": (
        "Am 3. Mai kam Dr. Kurz, d. h. sp\xe4t. |"
        "\u201eWo ist er?\u201c |"
        "Niemand wusste es. |"
        "Es kostet ca. 3,50 Euro. |"
        "Na gut!"
    ),
    "Czech": (
        "Pan Nov\xe1k p\u0159i\u0161el v 9 hodin. |"
        "Pro\u010d? |"
        "\u0158ekl \u201eDob\u0159e.\u201c |"
        "Pak ode\u0161el."
    ),
    "Turkish": ("Ali geldi. |\u0130yi misin? |Evet! |\u015eimdi gidiyoruz."),
    "Swedish": ("Hon kom kl. 8. |Varf\xf6r? |Det vet jag inte. |\xc5ke skrattade!"),
    "Hindi": (
        "\u0930\u093e\u092e \u0918\u0930 \u0917\u092f\u093e\u0964 |"
        "\u0935\u0939 \u0915\u094c\u0928 \u0939\u0948? |"
        "\u092e\u0941\u091d\u0947 \u0928\u0939\u0940\u0902 \u092a\u0924\u093e! |"
        "\u0921\u0949. \u0936\u0930\u094d\u092e\u093e \u0906\u090f\u0964\u0964 |"
        "\u0920\u0940\u0915 \u0939\u0948\u0964"
    ),
    "Bengali": (
        "\u0986\u09ae\u09bf \u09ad\u09be\u09a4 \u0996\u09be\u0987\u0964 |"
        "\u09a4\u09c1\u09ae\u09bf \u0995\u09c7\u09ae\u09a8 \u0986\u099b? |"
        "\u09ad\u09be\u09b2\u09cb\u0964"
    ),
    "Arabic": (
        "\u0630\u0647\u0628 \u0627\u0644\u0648\u0644\u062f \u0625\u0644\u0649 \u0627\u0644"
        "\u0628\u064a\u062a. |"
        "\u0647\u0644 \u0623\u0646\u062a \u0628\u062e\u064a\u0631\u061f |"
        "\u0646\u0639\u0645! |"
        "\u062d\u0633\u0646\u0627."
    ),
    "Persian": (
        "\u0627\u0648 \u0628\u0647 \u062e\u0627\u0646\u0647 \u0631\u0641\u062a. |"
        "\u0622\u06cc\u0627 \u062e\u0648\u0628\u06cc\u061f |"
        "\u0628\u0644\u0647!"
    ),
    "Urdu": (
        "\u0648\u06c1 \u06af\u06be\u0631 \u06af\u06cc\u0627\u06d4 |"
        "\u0622\u067e \u06a9\u06cc\u0633\u06d2 \u06c1\u06cc\u06ba\u061f |"
        "\u0679\u06be\u06cc\u06a9 \u06c1\u0648\u06ba\u06d4"
    ),
    "Hebrew": (
        "\u05d4\u05d5\u05d0 \u05d4\u05dc\u05da \u05d4\u05d1\u05d9\u05ea\u05d4. |"
        "\u05de\u05d4 \u05e9\u05dc\u05d5\u05de\u05da? |"
        "\u05d8\u05d5\u05d1!"
    ),
    "Armenian": (
        "\u0546\u0561 \u057f\u0578\u0582\u0576 \u0563\u0576\u0561\u0581\u0589 |"
        "\u0548\u055e\u057e \u0567 \u0576\u0561\u0589 |"
        "\u053c\u0561\u057e\u0589"
    ),
    "Amharic": (
        "\u12a5\u1231 \u12c8\u12f0 \u1264\u1275 \u1204\u12f0\u1362 |"
        "\u12f0\u1205\u1293 \u1290\u1205\u1367 |"
        "\u12a0\u12ce\u1362"
    ),
    "Greek": (
        "\u039f \u03ba. \u03a0\u03b1\u03c0\u03ac\u03c2 \u03ae\u03c1\u03b8\u03b5. |"
        "\u03a4\u03b9 \u03ba\u03ac\u03bd\u03b5\u03b9\u03c2; |"
        "\u039a\u03b1\u03bb\u03ac \u03b5\u03af\u03bc\u03b1\u03b9! |"
        "\u03a9\u03c1\u03b1\u03af\u03b1."
    ),
    "Korean": (
        "\uadf8\ub294 \uc9d1\uc5d0 \uac14\ub2e4. |"
        "\uad1c\ucc2e\uc544\uc694? |"
        "\ub124! |"
        "\uc88b\uc544\uc694."
    ),
    "Thai": (
        "\u0e40\u0e02\u0e32\u0e44\u0e1b\u0e1a\u0e49\u0e32\u0e19 |\u0e04\u0e38\u0e13\u0e2a"
        "\u0e1a\u0e32\u0e22\u0e14\u0e35\u0e44\u0e2b\u0e21"
    ),
    "Burmese": (
        "\u101e\u1030 \u1021\u102d\u1019\u103a\u1015\u103c\u1014\u103a\u101e\u100a\u103a"
        "\u104b |"
        "\u1014\u1031\u1000\u1031\u102c\u1004\u103a\u1038\u101c\u102c\u1038\u104b |"
        "\u1000\u1031\u102c\u1004\u103a\u1038\u1010\u101a\u103a\u104b"
    ),
    "Khmer": (
        "\u1782\u17b6\u178f\u17cb\u1791\u17c5\u1795\u17d2\u1791\u17c7\u17d4 |"
        "\u17a2\u17d2\u1793\u1780\u179f\u17bb\u1781\u179f\u1794\u17d2\u1794\u17b6\u1799\u1791"
        "\u17c1? |"
        "\u1794\u17b6\u1791\u17d4"
    ),
    "Tibetan": (
        "\u0f41\u0f7c\u0f44\u0f0b\u0f53\u0f44\u0f0b\u0f63\u0f0b\u0f55\u0f7a\u0f56\u0f66\u0f0b"
        "\u0f66\u0f7c\u0f44\u0f0b\u0f0d |"
        "\u0f56\u0f51\u0f7a\u0f0b\u0f58\u0f7c\u0f0b\u0f61\u0f72\u0f53\u0f0b\u0f53\u0f58\u0f0d"
        " |"
        "\u0f61\u0f72\u0f53\u0f0d"
    ),
    "Chinese": (
        "\u4ed6\u8bf4\uff1a\u201c\u4f60\u597d\u3002\u201d|"
        "\u6211\u95ee\uff1a\u201c\u4f60\u662f\u8c01\uff1f\u201d|"
        "\u597d\u5427\uff01|"
        "\u4ef7\u683c\u662f3.5\u5143\u3002|"
        "\uff08\u5b8c\u3002\uff09|"
        "\u8d70..|"
        "\u597d\u3002"
    ),
    "Japanese": (
        "\u96e8\u304c\u964d\u3063\u305f\u3002|"
        "\u300c\u884c\u304f\u305e\u3002\u300d\u3068\u5f7c\u306f\u8a00\u3063\u305f\u3002|"
        "\u672c\u5f53\u304b\uff1f|"
        "\u3046\u3093\uff01\uff01|"
        "\uff13\uff0e\uff15\u30ad\u30ed\u3060\u3002|"
        "\u7d42\u308f\u308a\u3002"
    ),
    "Vietnamese": (
        "\xd4ng \u1ea5y v\u1ec1 nh\xe0. |B\u1ea1n kh\u1ecfe kh\xf4ng? |\u0110\xfang v\u1eady!"
    ),
    "Ukrainian": (
        "\u0412\u0456\u043d \u043d\u0430\u0440\u043e\u0434\u0438\u0432\u0441\u044f \u0443 199"
        "0 \u0440. \u0443 \u041a\u0438\u0454\u0432\u0456. |"
        "\u0414\u0435 \u0432\u0456\u043d? |"
        "\u041d\u0430 \u0432\u0443\u043b. \u0428\u0435\u0432\u0447\u0435\u043d\u043a\u0430. |"
        "\u0422\u0430\u043a!"
    ),
    "Georgian": (
        "\u10d8\u10e1 \u10e1\u10d0\u10ee\u10da\u10e8\u10d8 \u10ec\u10d0\u10d5\u10d8\u10d3"
        "\u10d0. |"
        "\u10e0\u10dd\u10d2\u10dd\u10e0 \u10ee\u10d0\u10e0? |"
        "\u10d9\u10d0\u10e0\u10d2\u10d0\u10d3!"
    ),
    "Mongolian": ("\u1821\u1828\u1821\u1803 |\u1832\u1821\u1837\u1821\u1803"),
    "Santali": ("\u1c61\u1c5a\u1c66\u1c5f\u1c68\u1c7e |\u1c5f\u1c62\u1c7f"),
    "Javanese": ("\ua9b2\ua98f\ua9b8\ua9c9 |\ua98f\ua9ba\ua9b4\ua9ae\ua9ba\ua9c9"),
    "Tamil": (
        "\u0b85\u0bb5\u0ba9\u0bcd \u0bb5\u0bc0\u0b9f\u0bcd\u0b9f\u0bbf\u0bb1\u0bcd\u0b95"
        "\u0bc1\u0b9a\u0bcd \u0b9a\u0bc6\u0ba9\u0bcd\u0bb1\u0bbe\u0ba9\u0bcd. |"
        "\u0ba8\u0bc0 \u0baf\u0bbe\u0bb0\u0bcd? |"
        "\u0b9a\u0bb0\u0bbf!"
    ),
    "Amharic typed": ("\u12a5\u1230\u12ed\u1361\u1265\u12ae\u1361\u1361 |\u12f3\u1293\u1361\u1361"),
    "Dzongkha": (
        "\u0f46\u0f74\u0f0b\u0f63\u0f7c\u0f51\u0f0b\u0f40\u0fb1\u0f72\u0f0d |"
        "\u0f51\u0f42\u0f60\u0f0b\u0f56\u0f0d \u0f0d |"
        "\u0f63\u0f7a\u0f42\u0f66\u0f0b\u0f0f"
    ),
    "Lao": (
        "\u0ea5\u0eb2\u0ea7\u0ec4\u0e9b\u0ec0\u0eae\u0eb7\u0ead\u0e99. |"
        "\u0ec1\u0ea1\u0ec8\u0e99\u0e9a\u0ecd?"
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_end_where_a_reader_ends_them(language):
    expected = LANGUAGES[language].split("|")
    text = "".join(expected)
    assert [text[start:end] for start, end in pairwise(RULES.cut(text))] == expected


@pytest.mark.parametrize(
    "space", ["  ", "\n", "\r\n", "\u3000", "\u00a0", "\n\n", " \n \n "], ids=ascii
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_white_space_behind_a_sentence_may_be_of_any_kind(language, space):
    *parts, final = LANGUAGES[language].split("|")
    parts = [part[:-1] + space if part[-1] == " " else part for part in parts]
    text = "".join([*parts, final])
    assert [text[start:end] for start, end in pairwise(RULES.cut(text))] == [*parts, final]


@pytest.mark.parametrize("plane", range(2))
def test_each_terminator_of_unicode_ends_sentences(plane):
    """All that the Python that runs this knows of the property Sentence_Terminal."""
    signs = map(chr, range(0x10000 * plane, 0x10000 * plane + 0x10000))
    found = [sign for sign in signs if regex.fullmatch(r"\p{Sentence_Terminal}", sign)]
    found = [sign for sign in found if unicodedata.category(sign) != "Cn"]
    assert len(found) >= (70, 70)[plane]
    for sign in found:
        sentence = f"\u05d0\u05d1\u05d2\u05d3\u05d4\u05d5{sign} "
        assert RULES.cut(3 * sentence).tolist() == [0, 8, 16, 24], hex(ord(sign))
        machine, ends = RULES.machine(), []
        for character in 3 * sentence:
            ends += machine.push(character)
        assert [end for end in ends if end > 0] == [8, 16], hex(ord(sign))
