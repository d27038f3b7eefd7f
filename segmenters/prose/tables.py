"""Data of the sentence rules: abbreviations, words that open sentences, signs and candidates.

Words are in lower case, abbreviations without their last period. `BEFORE_NAME` come before what
they belong to ("Dr. Smith", "Fig. 3", "vs. Rome"), so their period never ends a sentence; `MAY_END`
end a sentence as often as not ("at 5 p.m. The", "Acme Inc. said"), so the next character decides;
smaller sets serve numbers and small letters. Single letters and other dotted initials need no list.
The lists are general knowledge, not learned from a corpus: English, German, French, Spanish,
Italian, Portuguese, Dutch, Polish, Russian, and the most common of a few others. A word of one
language that is an abbreviation in another is left out, or counts only before a number.

One regular expression, linear in the text, finds where a sentence may end and decides most of these
candidates at first sight, by `match.lastgroup`:

    never     no end, whatever surrounds it        always    an end beyond doubt
    simple    a terminator of ASCII, white space   gap       any other terminator
    lines     a line end                           unmarked  a face, a divider, an address
    None      a bullet
"""

import re

_TITLES = """
    mr mrs ms messrs mme mlle mlles mx dr drs prof profs rev revd fr hon pres gov sen sens rep
    reps amb supt assoc insp det asst gen gens col lt capt cpt cmdr comdr sgt cpl pvt maj adm brig
    st ste mt mts ft pt msgr bros fam herr frl
"""
_REFERENCES = """
    nr nrs fig figs eq eqs secs sect ch chap chaps vol vols pp p pg ed eds trans repr cf vs v viz
    al resp approx ca c e.g i.e eg ie esp incl excl ext tel op cit ibid dept univ mfg n\u00b0
"""
_GERMAN = """
    bzw bspw evtl ggf inkl exkl u.a z.b d.h o.\u00e4 s.o s.u vgl sog str tsd mio mrd jh geb gest
    zzgl abs bd hrsg ing dipl dipl.-ing nr abb aufl anm kap hr verh gegr z.t z.zt v.a i.d.r chr
    v.chr n.chr stv dt engl frz lat griech jhdt allg phil med jur rer nat
"""
_FRENCH = """
    mgr bd boul \u00e9d \u00e9ds coll trad janv f\u00e9vr juil d\u00e9c env t\u00e9l c.-\u00e0-d
    p.ex av j.-c n\u00e9e
"""
_SPANISH_AND_PORTUGUESE = """
    sr srs sra sras srta dra dras d\u00f1a ud vd avda p\u00e1g p\u00e1gs n\u00fam n\u00fams gral
    lic arq sto sta dcha izq hno hnos pdte aprox m\u00e1x m\u00edn exmo exma eng v.g
"""
_ITALIAN = """
    sig sigg sig.ra sig.na dott dott.ssa prof.ssa avv geom pagg artt cfr sgg mons ecc.mo distr
    p.es
"""
_DUTCH = """
    dhr mevr mej mr.dr ds d.w.z o.a o.l.v t.a.v t.n.v m.b.t i.v.m m.i.v a.d n.a.v bijv evt nl blz
    zgn wnd plv
"""
_POLISH = """
    ul al im np tzn tzw tj zob por dr hab in\u017c nadkom asp kom ks bp \u015bw m.in pl woj pow gm
    red oprac wyd rozdz godz zach wsch p\u0142n p\u0142d
"""
_RUSSIAN = """
    \u0433 \u0433\u0433.\u0433 \u0443\u043b \u0438\u043c \u0442\u0435\u043b \u0441\u043c
    \u0441\u0440 \u0440\u0438\u0441 \u0441\u0442\u0440 \u043f\u0440\u043e\u0444
    \u0430\u043a\u0430\u0434 \u0434\u043e\u0446 \u043e\u0431\u043b \u0442.\u0435 \u0442.\u043a
    \u0442.\u043d \u043f\u0440\u043e\u0441\u043f \u043f\u0435\u0440 \u043f\u043b
    \u043a\u043e\u0440\u043f \u0433\u043b \u043d\u0430\u043f\u0440 \u0442\u0430\u0431\u043b
    \u0433\u0440 \u0440\u0435\u0434 \u0438\u0437\u0434 \u0442\u044b\u0441 \u043c\u043b\u043d
    \u043c\u043b\u0440\u0434 \u0441\u0432 \u0443\u0440 \u0440\u043e\u0434
"""
_OTHERS = """
    \u0432\u0443\u043b \u0431\u0443\u0434 \u0433\u0440\u043e\u043c
    \u0921\u0949 \u092a\u094d\u0930\u094b nap\u0159 tzv \u010dl odst esim bkz \u00f6rn t.ex
    bl.a f.eks \u00fan
"""
_CORPORATE = """
    co cos corp inc ltd llc plc lda ltda cia c\u00eda bv nv gmbh
"""
_AFTER_NAME = """
    jr sr esq ph.d m.d b.a m.a b.sc m.sc ll.d
"""
_PLACES_AND_TIMES = """
    a.m p.m a.d b.c b.c.e c.e u.s u.s.a u.k u.n e.u d.c n.y l.a ave blvd rd hwy bldg apt mon tue
    tues wed thu thurs fri
"""
_UNITS_AND_REST = """
    lb lbs oz hr hrs min mins yr yrs mo mos sq cu etc usw usf enz ecc ff u.\u00e4 uds vds hab a.s
    jl proc ww itd itp osv p.n.e n.e \u0433\u0433 \u0432\u0432 \u0434\u0440 \u043f\u0440
    \u0442.\u0434 \u0442.\u043f \u0440\u0443\u0431 \u043a\u043e\u043f \u043d.\u044d
    \u0447\u0435\u043b \u043c\u0438\u043d \u0441\u0435\u043a
"""


def words(*lists: str) -> frozenset[str]:
    """Return the words of lists, which are separated by white space."""
    return frozenset(word for words in lists for word in words.split())


BEFORE_NAME = words(
    *(_TITLES, _REFERENCES, _GERMAN, _FRENCH, _SPANISH_AND_PORTUGUESE),
    *(_ITALIAN, _DUTCH, _POLISH, _RUSSIAN, _OTHERS),
)
MAY_END = words(_CORPORATE, _AFTER_NAME, _PLACES_AND_TIMES, _UNITS_AND_REST) - BEFORE_NAME

# Abbreviations only before a digit, else words of their own ("She said no. Then").
BEFORE_NUMBER = words(
    """
    jan feb apr jun jul aug sep sept oct nov dec
    no nos art arts para sec est max mar cap caps ok ust poz pkt par rys tab lp ziff tit lib sez
    n\u00ba num mod ex at ob tz circ hs hrs kl km.h \u043f \u043f\u043f \u0441\u0442 \u043e\u043a
    """
)

# A German number with a period is an ordinal after these ("am 3. Oktober").
BEFORE_ORDINAL = words("am zum vom im der dem den des die das bis und")

# Words too short to be distinguished from abbreviations by their length; after them a small letter
# may start a sentence in informal English ("I want it. they don't").
SHORT_WORDS = words(
    """
    it me you him her us them one two out off up on of to do so too now yet all any day way far
    few lot get go got see say his its did was can he she we they who how why use old new bad big
    fun dog cat car man men boy bed job end too ask buy eat run try pay put let off bad hot big top
    bit lot yes why
    """
)

# Words that, with a capital, open a sentence far more often than they follow an abbreviation.
STARTERS = words(
    """
    the a an this that these those he she it we you they i his her its our their my your one some
    many most all each both no not what when where who why how which if in on at by for from with
    as after before since while although though but and or so yet because then however moreover
    also there here do does did is are was were have has had can could will would should may might
    let please once now today
    der die das ein eine er sie es wir ich und aber doch im am
    le la les un une il elle nous vous on ce cette et mais
    el los las una ella ellos pero y en su
    lo gli uno ma nel con
    o os as um uma ele ela eles mas e
    de het een hij zij wij maar er
    \u0432 \u0438 \u043d\u0430 \u043e\u043d \u043e\u043d\u0430 \u043e\u043d\u0438 \u043d\u043e
    \u0430 \u044d\u0442\u043e \u043a\u0430\u043a \u044f \u043c\u044b \u043f\u043e \u0441
    w i na to ten ta on ona nie z po
    """
)

LISTS = (BEFORE_NAME, MAY_END, BEFORE_NUMBER, BEFORE_ORDINAL, SHORT_WORDS, STARTERS)
# The pattern of words left out at the start of a sentence.
OMISSION = r"\.(?: \.){2} \w"
# Ends a sentence only before white space: . ! ? ellipsis and the doubled marks.
PLAIN = ".!?\u2026\u203c\u203d\u2047\u2048\u2049"
# Ends a sentence with or without white space behind it: stops of Chinese and Japanese, full-width
# and small forms, then those of other scripts in the order of Unicode (Sentence_Terminal), and
# Tibetan.
STRONG = (
    "\u3002\uff01\uff1f\uff61\uff0e\ufe12\ufe15\ufe16\ufe52\ufe56\ufe57"
    "\u0589\u061d\u061e\u061f\u06d4\u0700\u0701\u0702\u07f9\u0837\u0839\u083d\u083e"
    "\u0964\u0965\u104a\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809"
    "\u1944\u1945\u1aa8\u1aa9\u1aaa\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b\u1c3c\u1c7e\u1c7f"
    "\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d\uaa5e"
    "\uaa5f\uaaf0\uaaf1\uabeb\u0f0d\u0f0e"
)
# Closes after a terminator and belongs to its sentence. German closes with either guillemet, and
# with U+201C, which `_LATE` adds; * and _ are Markdown's.
CLOSERS = (
    "\"'`)]}*_\u2019\u201d\u00bb\u00ab\u203a\u2039"
    "\u300d\u300f\uff09\u3011\u300b\u3009\u3015\uff3d\uff02"
)
BULLETS = "\u2022\u2023\u2043"
# Emoji follow the sentence that they comment on; a face ends one that has no terminator.
EMOJI = "\u2600-\u26ff\u2763-\u2767\u2b50\u200d\ufe0f\U0001f000-\U0001faff"
# A run of these between words divides them; parentheses make faces, too.
DIVIDERS = "=_~-"
FACES = "\u263a\U0001f600-\U0001f64f\U0001f910-\U0001f93a"
# ";" is the Greek question mark, and ":" is also typed for the Armenian full stop.
_BY_SCRIPT = "(?<=[\u0370-\u03ff\u1f00-\u1fff];)|(?<=[\u0531-\u0587]:)"
LINE_ENDS = "\n\r\u2028\u2029"

# What may not start a sentence: it continues or closes the one before.
CONTINUES = frozenset(",;:)]}%/" + PLAIN + STRONG + "\u201d\uff0c\u3001\uff1b\uff1a")
CONTINUES_STRONG = CONTINUES | frozenset("\u300d\u300f\u300b\u3009\uff09\u3011")

_T, _P, _C, _D = map(re.escape, (PLAIN + STRONG, PLAIN, CLOSERS, DIVIDERS))
# U+201C opens a quotation right after a Chinese full stop.
_LATE = rf"(?:(?<![{STRONG}\u201d])\u201c[{_T}{_C}\u201c]*+)?+"
_S = STRONG.replace("\uff0e", "")  # is in numbers as well
_GO_ON, _GO_ON_STRONG = (
    re.escape("".join(sorted(signs))) for signs in (CONTINUES, CONTINUES_STRONG)
)
# Shortcuts past `_is_end` of the rules, which decides the same at several times the cost; the tests
# compare them.
_NEVER = "|".join(
    (
        # Right before an ASCII character; before a capital only after a small letter.
        rf"(?<=[{_P}])[{_P}{_C}]*+(?=[\0-\x7f])(?![\s\[A-Z])",
        rf"(?<=[{_P}])(?<![^\0-`{{-\x7f][{_P}])[{_P}{_C}]*+(?=[A-Z])",
        # Before signs that continue the sentence.
        rf"(?<=[{_P}])[{_P}{_C}]*+(?:[ \t]++\n?+|\n)[ \t]*+(?=[{_GO_ON}])(?!{OMISSION})",
        rf"(?<=[{STRONG}])[{_T}{_C}]*+[ \t]*+(?=[{_GO_ON_STRONG}])",
        # After an initial; full-width numbers; Greek and Armenian words.
        rf"(?<=\s[A-HJ-Z]\.)[{_C}]*+[ \t]++(?=[!-&(-Z\\-~])(?!{OMISSION})",
        r"(?<=\uff0e)(?=\d)",
        r"(?<=[;:])(?=[\u03ac-\u03ce\u0561-\u0587])",
    )
)
LANES = (
    rf"(?P<never>{_NEVER})"
    # White space, then an ASCII character that starts neither a note nor a quote.
    rf"|(?<=[{_P}])[{_P}{_C}]*+(?P<simple>\s++)(?=[!-&(-Z\\-~])"
    # Nothing after it that needs a second look.
    rf"|(?<=[{_S}])[{_S}]*+(?P<always>\s*+)(?=[^{_GO_ON_STRONG}{_C}{EMOJI}\s\[\u201c])|"
)


def _candidate(first: str, by_script: str) -> re.Pattern[str]:
    """Compile the candidates: `first` are further characters, `by_script` looks behind them.

    Each branch consumes what it looks at (possessive quantifiers), so no character is scanned
    more than a few times: a failing `[.]+\\s` would be tried again from each period of a run.
    """
    return re.compile(
        rf"[{_T}{LINE_ENDS}{BULLETS}{_D}()>{first}]"
        rf"(?:{LANES}(?:(?<=[{_T}]){by_script})[{_T}{_C}]*+{_LATE}"
        rf"(?P<spaced>(?: ''|[ \u00a0\u202f]\u00bb)?+)"
        rf"(?P<note>(?: ?\[\d{{1,3}}\])*+)(?P<emoji>(?:[ \u00a0]*+[{EMOJI}]++)*+)(?P<gap>\s*+)"
        rf"|(?<=[{LINE_ENDS}])(?:(?=\s)|(?<=\u2029))(?P<lines>\s*+)"
        rf"|(?<=\s[{BULLETS}])"
        rf"|(?:(?<=[{FACES}])[{EMOJI}]*+|(?:(?<=[{_D}]{{6}})|(?<=\w>)|(?<=\s[:;][()])"
        rf"|(?<=\s[:;]-[()]))(?=\s))(?P<unmarked>\s*+))"
    )


# ASCII text has neither scripts nor faces, so a simpler, faster pattern reads it.
ASCII, ANY = _candidate("", ""), _candidate(";:" + FACES, "|" + _BY_SCRIPT)
