"""Names, places, modals, conjunctions and fixed adverbials of the grammar."""

from __future__ import annotations

from grammar.entries import City, Modal, Phrase, Venue, rows
from grammar.lexicon import NOUN

# Names ending in an s sound are left out: their genitive has no s (Hans, Hans').
FEMALE_NAMES = ("Anna", "Maria", "Lena", "Julia", "Clara", "Eva", "Laura", "Nina")
MALE_NAMES = ("Peter", "Paul", "Martin", "Stefan", "Jan", "Simon", "David", "Oliver")

_CITIES = """
Berlin | Berlin
Hamburg | Hamburg
Bremen | Bremen
Dresden | Dresden
Leipzig | Leipzig
London | London
Paris | Paris
München | Munich
Köln | Cologne
Wien | Vienna
Zürich | Zurich
Genf | Geneva
Rom | Rome
Prag | Prague
Warschau | Warsaw
Brüssel | Brussels
Italien | Italy
Frankreich | France
Spanien | Spain
Österreich | Austria
"""
CITIES = tuple(City(*cells) for cells in rows(_CITIES))

# Noun | being there in German, in English | going there in German, in English | uses.
_VENUES = """
Garten      | in  | in | in  | into | rest read eat music work
Park        | in  | in | in  | to   | rest read eat music wait
Kino        | in  | at | in  | to   | film wait
Theater     | in  | at | in  | to   | music wait work
Museum      | in  | at | in  | to   | wait work
Bibliothek  | in  | in | in  | to   | read wait work
Bahnhof     | an  | at | zu  | to   | read wait eat work
Flughafen   | an  | at | zu  | to   | read wait eat work
Markt       | auf | at | auf | to   | wait eat work
Büro        | in  | at | in  | to   | read eat work
Strand      | an  | on | an  | to   | rest read eat music wait
Krankenhaus | in  | in | in  | to   | rest read work
"""
VENUES = tuple(
    Venue(NOUN[noun], at, english_at, to, english_to, tuple(uses.split()))
    for noun, at, english_at, to, english_to, uses in rows(_VENUES)
)

# German | English auxiliary, be or full verb | its past | what follows it.
_MODALS = """
können | can   | could  |
müssen | have  | had    | to
wollen | want  | wanted | to
dürfen | be    | was    | allowed to
sollen | be    | was    | supposed to
möchten | would |       | like to
"""
MODALS = tuple(Modal(*cells) for cells in rows(_MODALS))
MODAL = {modal.german: modal for modal in MODALS}


def _phrases(table: str) -> tuple[Phrase, ...]:
    return tuple(Phrase(*cells) for cells in rows(table))


PAST_TIMES = _phrases("""
gestern          | yesterday
vorgestern       | the day before yesterday
gestern Abend    | yesterday evening
gestern Morgen   | yesterday morning
heute Morgen     | this morning
letzte Woche     | last week
letzten Monat    | last month
letztes Jahr     | last year
""")

FUTURE_TIMES = _phrases("""
morgen           | tomorrow
übermorgen       | the day after tomorrow
morgen Abend     | tomorrow evening
heute Abend      | this evening
nächste Woche    | next week
nächsten Monat   | next month
nächstes Jahr    | next year
""")

HABITUAL_TIMES = _phrases("""
jeden Tag        | every day
jeden Morgen     | every morning
jeden Abend      | every evening
jede Woche       | every week
jedes Wochenende | every weekend
""")

NOW = Phrase("gerade", "right now")

# Days that a time of day may follow: 'gestern um halb vier', but not 'letzte Woche um halb vier'.
CLOCK_DAYS = frozenset(("gestern", "vorgestern", "morgen", "übermorgen", "jeden Tag"))

FREQUENCIES = _phrases("""
oft              | often
immer            | always
manchmal         | sometimes
selten           | rarely
meistens         | usually
""")

WEEKDAYS = _phrases("""
Montag           | Monday
Dienstag         | Tuesday
Mittwoch         | Wednesday
Donnerstag       | Thursday
Freitag          | Friday
Samstag          | Saturday
Sonntag          | Sunday
""")

MONTHS = _phrases("""
Januar           | January
Februar          | February
März             | March
April            | April
Mai              | May
Juni             | June
Juli             | July
August           | August
September        | September
Oktober          | October
November         | November
Dezember         | December
""")

# With what care or speed something is done; each suits any activity with an object.
MANNERS = _phrases("""
schnell          | quickly
langsam          | slowly
sorgfältig       | carefully
allein           | alone
""")

BECAUSE = Phrase("weil", "because")
ALTHOUGH = Phrase("obwohl", "although")
IF = Phrase("wenn", "if")
WHEN = Phrase("als", "when")
AFTER = Phrase("nachdem", "after")
BEFORE = Phrase("bevor", "before")
WHILE = Phrase("während", "while")
THAT = Phrase("dass", "that")
WHETHER = Phrase("ob", "whether")
IN_ORDER = Phrase("um", "in order")
TO = Phrase("", "")
BUT = Phrase("aber", "but")

WHEN_ASKED = Phrase("wann", "when")
WHY_ASKED = Phrase("warum", "why")
WHERE_ASKED = Phrase("wo", "where")
WHERE_TO_ASKED = Phrase("wohin", "where")
