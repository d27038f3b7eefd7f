"""Abbreviations that the sentence rules know, in lower case and without their last period.

`BEFORE_NAME` are followed by what they belong to ("Dr. Smith", "Fig. 3", "vs. Rome"), so their
period never ends a sentence; `MAY_END` stand at the end of a sentence as often as inside of one
("at 5 p.m. The", "Acme Inc. said"), so the next character decides; two small sets serve numbers.
Single letters and other dotted initials need no list. The lists are general knowledge, English
first; they hold no rules.
"""

_TITLES = """
    mr mrs ms messrs mme mlle mlles mx dr drs prof profs rev revd fr hon pres gov sen sens rep
    reps amb supt assoc insp det asst gen gens col lt capt cpt cmdr comdr sgt cpl pvt maj adm brig
    st ste mt mts ft pt msgr bros fam herr frl
"""
_REFERENCES = """
    nr nrs fig figs eq eqs secs sect ch chap chaps vol vols pp p pg ed eds
    trans repr cf vs v viz al resp approx ca c e.g i.e eg ie esp incl excl ext tel op cit ibid
    dept univ mfg n\u00b0
"""
_MONTHS_AND_DAYS = """
    jan feb apr jun jul aug sep sept oct nov dec
"""
_GERMAN = """
    bzw bspw ca evtl ggf inkl exkl u.a z.b d.h o.\u00e4 s.o s.u vgl usf sog str tsd mio mrd
    jh geb gest zzgl abs bd hrsg ing dipl nr
"""
_ROMANCE = """
    sra srta dra d\u00f1a av avda p\u00e1g p\u00e1gs n\u00fam sig sigg dott prof.ssa
"""
_CORPORATE = """
    co cos corp inc ltd llc plc
"""
_AFTER_NAME = """
    jr sr esq ph.d m.d b.a m.a b.sc m.sc ll.d
"""
_PLACES_AND_TIMES = """
    a.m p.m a.d b.c b.c.e c.e u.s u.s.a u.k u.n e.u d.c n.y l.a ave blvd rd hwy bldg apt
    mon tue tues wed thu thurs fri
"""
_UNITS_AND_REST = """
    lb lbs oz hr hrs min mins yr yrs mo mos sq cu etc usw
"""


def _words(*lists: str) -> frozenset[str]:
    return frozenset(word for words in lists for word in words.split())


BEFORE_NAME = _words(_TITLES, _REFERENCES, _MONTHS_AND_DAYS, _GERMAN, _ROMANCE)
MAY_END = _words(_CORPORATE, _AFTER_NAME, _PLACES_AND_TIMES, _UNITS_AND_REST) - BEFORE_NAME

# Words of their own otherwise ("She said no. Then"): abbreviations before a digit only.
BEFORE_NUMBER = _words("no nos art arts para sec est max mar")

# A German number with a period is an ordinal behind these ("am 3. Oktober").
BEFORE_ORDINAL = _words("am zum vom im der dem den des die das bis und")
