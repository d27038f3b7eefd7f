"""Abbreviations that the sentence rules know, in lower case and without their last period.

`BEFORE_NAME` are followed by what they belong to ("Dr. Smith", "Fig. 3", "vs. Rome"), so their
period never ends a sentence; `MAY_END` stand at the end of a sentence as often as inside of one
("at 5 p.m. The", "Acme Inc. said"), so the next character decides; smaller sets serve numbers
and small letters. Single letters and other dotted initials need no list. The lists are general
knowledge: English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian, and the
commonest of a few others. A word of one language that is an abbreviation in another is left out,
or counts before a number only.
"""

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
    """The words of strings that hold them between white space."""
    return frozenset(word for words in lists for word in words.split())


BEFORE_NAME = words(
    *(_TITLES, _REFERENCES, _GERMAN, _FRENCH, _SPANISH_AND_PORTUGUESE),
    *(_ITALIAN, _DUTCH, _POLISH, _RUSSIAN, _OTHERS),
)
MAY_END = words(_CORPORATE, _AFTER_NAME, _PLACES_AND_TIMES, _UNITS_AND_REST) - BEFORE_NAME

# Words of their own otherwise ("She said no. Then"): abbreviations before a digit only.
BEFORE_NUMBER = words(
    """
    jan feb apr jun jul aug sep sept oct nov dec
    no nos art arts para sec est max mar cap caps ok ust poz pkt par rys tab lp ziff tit lib sez
    n\u00ba num mod ex at ob tz circ hs hrs kl km.h \u043f \u043f\u043f \u0441\u0442 \u043e\u043a
    """
)

# A German number with a period is an ordinal behind these ("am 3. Oktober").
BEFORE_ORDINAL = words("am zum vom im der dem den des die das bis und")

# Too short to be told from abbreviations by their length; a small letter may start a sentence
# behind them in informal English ("I want it. they don't").
SHORT_WORDS = words(
    """
    it me you him her us them one two out off up on of to do so too now yet all any day way far
    few lot get go got see say his its did was can he she we they who how why use old new bad big
    fun dog cat car man men boy bed job end too ask buy eat run try pay put let off bad hot big top
    bit lot yes why
    """
)
