"""The demo grammar, against hand-written German and English."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo"
_SCRIPT = _DEMO / "grammar" / "generate.py"
sys.path.insert(0, str(_DEMO))

from grammar import english, english_forms, english_numbers, german, german_forms, german_numbers  # noqa: E402,I001
from grammar import corpus, german_phrases, phrases  # noqa: E402
from grammar.entries import Case, City, Gender, Verb, parse_noun, parse_verb  # noqa: E402
from grammar.generate import ExhaustedError, sample_pairs  # noqa: E402
from grammar.lexicon import ADJECTIVE, ADJECTIVES, NOUN, NOUNS, VERB, VERBS  # noqa: E402
from grammar.meaning import (  # noqa: E402
    Clause,
    Clock,
    Comparison,
    Date,
    Determiner,
    Front,
    Interrogative,
    It,
    Link,
    Measure,
    Name,
    NounPhrase,
    Place,
    Pronoun,
    Relative,
    Sentence,
    Span,
    Tense,
    Weekday,
)

_CASES = tuple(Case)
_PETER = Name("Peter", Gender.MASCULINE)
_ANNA = Name("Anna", Gender.FEMININE)
_SHE = Pronoun(3, gender=Gender.FEMININE)
_HE = Pronoun(3, gender=Gender.MASCULINE)


def _verb(lemma: str, arguments: int = 1) -> Verb:
    return VERB[lemma, arguments]


# --- noun phrases -------------------------------------------------------------------------------

# Nominative, accusative, dative, genitive.
_NOUN_PHRASES = [
    (NounPhrase(NOUN["Hund"], adjectives=(ADJECTIVE["alt"],)),
     ["der alte Hund", "den alten Hund", "dem alten Hund", "des alten Hundes"]),
    (NounPhrase(NOUN["Frau"], adjectives=(ADJECTIVE["jung"],)),
     ["die junge Frau", "die junge Frau", "der jungen Frau", "der jungen Frau"]),
    (NounPhrase(NOUN["Buch"], adjectives=(ADJECTIVE["teuer"],)),
     ["das teure Buch", "das teure Buch", "dem teuren Buch", "des teuren Buches"]),
    (NounPhrase(NOUN["Kind"], plural=True, adjectives=(ADJECTIVE["klein"],)),
     ["die kleinen Kinder", "die kleinen Kinder", "den kleinen Kindern", "der kleinen Kinder"]),
    (NounPhrase(NOUN["Student"]),
     ["der Student", "den Studenten", "dem Studenten", "des Studenten"]),
    (NounPhrase(NOUN["Nachbar"], Determiner.INDEFINITE, adjectives=(ADJECTIVE["nett"],)),
     ["ein netter Nachbar", "einen netten Nachbarn", "einem netten Nachbarn",
      "eines netten Nachbarn"]),
    (NounPhrase(NOUN["Katze"], Determiner.NEGATIVE, adjectives=(ADJECTIVE["schwarz"],)),
     ["keine schwarze Katze", "keine schwarze Katze", "keiner schwarzen Katze",
      "keiner schwarzen Katze"]),
    (NounPhrase(NOUN["Auto"], Determiner.POSSESSIVE, adjectives=(ADJECTIVE["rot"],),
                owner=Pronoun(1)),
     ["mein rotes Auto", "mein rotes Auto", "meinem roten Auto", "meines roten Autos"]),
    (NounPhrase(NOUN["Bruder"], Determiner.POSSESSIVE, plural=True, owner=Pronoun(1, plural=True)),
     ["unsere Brüder", "unsere Brüder", "unseren Brüdern", "unserer Brüder"]),
    (NounPhrase(NOUN["Hut"], Determiner.POSSESSIVE, adjectives=(ADJECTIVE["alt"],), owner=_ANNA),
     ["Annas alter Hut", "Annas alten Hut", "Annas altem Hut", "Annas alten Hutes"]),
    (NounPhrase(NOUN["Koffer"], Determiner.DEMONSTRATIVE, adjectives=(ADJECTIVE["schwer"],)),
     ["dieser schwere Koffer", "diesen schweren Koffer", "diesem schweren Koffer",
      "dieses schweren Koffers"]),
    (NounPhrase(NOUN["Milch"], Determiner.INDEFINITE, adjectives=(ADJECTIVE["kalt"],)),
     ["kalte Milch", "kalte Milch", "kalter Milch", "kalter Milch"]),
    (NounPhrase(NOUN["Wein"], Determiner.INDEFINITE, adjectives=(ADJECTIVE["kalt"],)),
     ["kalter Wein", "kalten Wein", "kaltem Wein", "kalten Weins"]),
    (NounPhrase(NOUN["Brot"], Determiner.INDEFINITE, adjectives=(ADJECTIVE["frisch"],)),
     ["frisches Brot", "frisches Brot", "frischem Brot", "frischen Brotes"]),
    (NounPhrase(NOUN["Film"], Determiner.COUNTED, True, (ADJECTIVE["lang"],), count=21),
     ["einundzwanzig lange Filme", "einundzwanzig lange Filme", "einundzwanzig langen Filmen",
      "einundzwanzig langer Filme"]),
    (NounPhrase(NOUN["Auto"], plural=True), ["die Autos", "die Autos", "den Autos", "der Autos"]),
]  # fmt: skip


@pytest.mark.parametrize(("phrase", "expected"), _NOUN_PHRASES)
def test_noun_phrase_in_all_cases(phrase: NounPhrase, expected: list[str]) -> None:
    assert [german_phrases.nominal(phrase, case) for case in _CASES] == expected


@pytest.mark.parametrize(
    ("gender", "plural", "expected"),
    [
        (Gender.MASCULINE, False, "der den dem dessen"),
        (Gender.FEMININE, False, "die die der deren"),
        (Gender.NEUTER, False, "das das dem dessen"),
        (Gender.MASCULINE, True, "die die denen deren"),
    ],
)
def test_relative_pronoun(gender: Gender, plural: bool, expected: str) -> None:
    forms = [german_forms.relative_pronoun(gender, plural, case) for case in _CASES]
    assert " ".join(forms) == expected


@pytest.mark.parametrize(
    ("pronoun", "german_expected", "english_expected"),
    [
        (Pronoun(1), "ich mich mir", "I me"),
        (Pronoun(2), "du dich dir", "you you"),
        (_HE, "er ihn ihm", "he him"),
        (_SHE, "sie sie ihr", "she her"),
        (Pronoun(3, gender=Gender.NEUTER, human=False), "es es ihm", "it it"),
        (Pronoun(3, gender=Gender.MASCULINE, human=False), "er ihn ihm", "it it"),
        (Pronoun(1, plural=True), "wir uns uns", "we us"),
        (Pronoun(3, plural=True), "sie sie ihnen", "they them"),
    ],
)
def test_personal_pronouns(pronoun: Pronoun, german_expected: str, english_expected: str) -> None:
    said = [german_phrases.nominal(pronoun, case) for case in _CASES[:3]]
    assert " ".join(said) == german_expected
    args = pronoun.person, pronoun.plural, pronoun.gender, pronoun.human
    forms = [english_forms.personal_pronoun(*args, is_subject) for is_subject in (True, False)]
    assert " ".join(forms) == english_expected


@pytest.mark.parametrize(
    ("following", "expected"),
    [("apple", "an"), ("old man", "an"), ("university", "a"), ("euro", "a"), ("house", "a"),
     ("umbrella", "an"), ("uncle", "an"), ("easy task", "an"), ("expensive hat", "an")],
)  # fmt: skip
def test_indefinite_article(following: str, expected: str) -> None:
    assert english_forms.indefinite_article(following) == expected


# --- numbers and times --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "german_expected", "english_expected"),
    [
        (1, "eins", "one"),
        (11, "elf", "eleven"),
        (12, "zwölf", "twelve"),
        (16, "sechzehn", "sixteen"),
        (17, "siebzehn", "seventeen"),
        (20, "zwanzig", "twenty"),
        (21, "einundzwanzig", "twenty-one"),
        (30, "dreißig", "thirty"),
        (66, "sechsundsechzig", "sixty-six"),
        (77, "siebenundsiebzig", "seventy-seven"),
        (100, "einhundert", "one hundred"),
        (101, "einhunderteins", "one hundred and one"),
        (112, "einhundertzwölf", "one hundred and twelve"),
        (345, "dreihundertfünfundvierzig", "three hundred and forty-five"),
        (717, "siebenhundertsiebzehn", "seven hundred and seventeen"),
        (999, "neunhundertneunundneunzig", "nine hundred and ninety-nine"),
    ],
)
def test_number_words(number: int, german_expected: str, english_expected: str) -> None:
    assert german_numbers.number_word(number) == german_expected
    assert english_numbers.number_word(number) == english_expected


def test_number_words_are_distinct_and_well_formed() -> None:
    german_words = [german_numbers.number_word(number) for number in range(1, 1000)]
    english_words = [english_numbers.number_word(number) for number in range(1, 1000)]
    assert len(set(german_words)) == len(set(english_words)) == 999
    assert all(re.fullmatch("[a-zäöüß]+", word) for word in german_words)
    ones = "ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun"
    compound = re.compile(f"({ones})und(zwanzig|dreißig|(vier|fünf|sech|sieb|acht|neun)zig)")
    for number in range(21, 100):
        if number % 10:
            assert compound.fullmatch(german_words[number - 1])
            assert english_words[number - 1].count("-") == 1
    for number in range(101, 1000):
        assert "hundert" in german_words[number - 1]
        assert (" and " in english_words[number - 1]) == (number % 100 != 0)


_TIMES = [
    (Clock(3, 0), "um drei Uhr", "at three o'clock"),
    (Clock(1, 0), "um ein Uhr", "at one o'clock"),
    (Clock(3, 5), "um fünf nach drei", "at five past three"),
    (Clock(3, 10), "um zehn nach drei", "at ten past three"),
    (Clock(3, 15), "um Viertel nach drei", "at a quarter past three"),
    (Clock(3, 20), "um zwanzig nach drei", "at twenty past three"),
    (Clock(3, 25), "um fünf vor halb vier", "at twenty-five past three"),
    (Clock(3, 30), "um halb vier", "at half past three"),
    (Clock(3, 35), "um fünf nach halb vier", "at twenty-five to four"),
    (Clock(3, 40), "um zwanzig vor vier", "at twenty to four"),
    (Clock(3, 45), "um Viertel vor vier", "at a quarter to four"),
    (Clock(3, 55), "um fünf vor vier", "at five to four"),
    (Clock(12, 30), "um halb eins", "at half past twelve"),
    (Clock(12, 45), "um Viertel vor eins", "at a quarter to one"),
    (Date(3, 2, False), "am 3. März", "on 3 March"),
    (Date(3, 2, True), "am dritten März", "on the third of March"),
    (Date(1, 4, True), "am ersten Mai", "on the first of May"),
    (Date(7, 6, True), "am siebten Juli", "on the seventh of July"),
    (Date(12, 11, True), "am zwölften Dezember", "on the twelfth of December"),
    (Date(20, 0, True), "am zwanzigsten Januar", "on the twentieth of January"),
    (Date(21, 7, True), "am einundzwanzigsten August", "on the twenty-first of August"),
    (Weekday(0), "am Montag", "on Monday"),
    (Weekday(4, -1), "letzten Freitag", "last Friday"),
    (Weekday(5, 1), "nächsten Samstag", "next Saturday"),
    (Weekday(6, every=True), "jeden Sonntag", "every Sunday"),
    (Span(3, NOUN["Tag"], True), "vor drei Tagen", "three days ago"),
    (Span(2, NOUN["Monat"], False), "in zwei Monaten", "in two months"),
    (Span(1, NOUN["Woche"], True), "vor einer Woche", "a week ago"),
    (Span(1, NOUN["Jahr"], False), "in einem Jahr", "in a year"),
]


@pytest.mark.parametrize(("time", "german_expected", "english_expected"), _TIMES)
def test_times(time: object, german_expected: str, english_expected: str) -> None:
    assert german_numbers.time_phrase(time) == german_expected  # type: ignore[arg-type]
    assert english_numbers.time_phrase(time) == english_expected  # type: ignore[arg-type]


# --- verbs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lemma", "arguments", "expected"),
    [
        ("lesen", 1, "lese liest liest lesen"),
        ("essen", 1, "esse isst isst essen"),
        ("finden", 1, "finde findest findet finden"),
        ("waschen", 1, "wasche wäschst wäscht waschen"),
        ("arbeiten", 0, "arbeite arbeitest arbeitet arbeiten"),
        ("fahren", 0, "fahre fährst fährt fahren"),
        ("tanzen", 0, "tanze tanzt tanzt tanzen"),
        ("füttern", 1, "füttere fütterst füttert füttern"),
        ("zustimmen", 1, "stimme stimmst stimmt stimmen"),
        ("einladen", 1, "lade lädst lädt laden"),
        ("sein", 0, "bin bist ist sind"),
        ("wissen", 0, "weiß weißt weiß wissen"),
    ],
)
def test_present(lemma: str, arguments: int, expected: str) -> None:
    verb = _verb(lemma, arguments)
    agreements = [(1, False), (2, False), (3, False), (3, True)]
    forms = [german_forms.present(verb.infinitive, verb.third_person, *a) for a in agreements]
    assert " ".join(forms) == expected


@pytest.mark.parametrize(
    ("infinitive", "third", "preterite", "participle"),
    [
        ("kaufen", "kauft", "kaufte", "gekauft"),
        ("arbeiten", "arbeitet", "arbeitete", "gearbeitet"),
        ("öffnen", "öffnet", "öffnete", "geöffnet"),
        ("lernen", "lernt", "lernte", "gelernt"),
        ("stimmen", "stimmt", "stimmte", "gestimmt"),
        ("besuchen", "besucht", "besuchte", "besucht"),
        ("reparieren", "repariert", "reparierte", "repariert"),
        ("füttern", "füttert", "fütterte", "gefüttert"),
        ("auf+räumen", "räumt", "räumte", "aufgeräumt"),
        ("vor+bereiten", "bereitet", "bereitete", "vorbereitet"),
    ],
)
def test_regular_verbs(infinitive: str, third: str, preterite: str, participle: str) -> None:
    verb = parse_verb([infinitive, "do did done", "", ""])
    assert (verb.third_person, verb.preterite, verb.participle) == (third, preterite, participle)


@pytest.mark.parametrize(
    ("base", "expected"),
    [("write", "writing"), ("get", "getting"), ("visit", "visiting"), ("travel", "travelling"),
     ("put", "putting"), ("agree", "agreeing"), ("show", "showing"), ("carry", "carrying"),
     ("open", "opening"), ("read", "reading"), ("feed", "feeding"), ("fly", "flying")],
)  # fmt: skip
def test_gerund(base: str, expected: str) -> None:
    assert english_forms.gerund(base) == expected


def _call(tense: Tense, **more: object) -> Clause:
    return Clause(_verb("anrufen"), _PETER, tense, (_ANNA,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clause", "main", "subordinate"),
    [
        (_call(Tense.PRESENT), "Peter ruft Anna an.", "dass Peter Anna anruft."),
        (_call(Tense.PAST), "Peter hat Anna angerufen.", "dass Peter Anna angerufen hat."),
        (_call(Tense.NARRATIVE), "Peter rief Anna an.", "dass Peter Anna anrief."),
        (_call(Tense.PLUPERFECT), "Peter hatte Anna angerufen.",
         "dass Peter Anna angerufen hatte."),
        (_call(Tense.FUTURE), "Peter wird Anna anrufen.", "dass Peter Anna anrufen wird."),
        (_call(Tense.PAST, modal=phrases.MODAL["müssen"]), "Peter musste Anna anrufen.",
         "dass Peter Anna anrufen musste."),
    ],
)  # fmt: skip
def test_separable_verb(clause: Clause, main: str, subordinate: str) -> None:
    assert german.realise(Sentence(clause)) == main
    hope = Clause(_verb("hoffen", 0), Pronoun(1), Tense.PRESENT)
    linked = german.realise(Sentence(hope, Link(phrases.THAT, clause)))
    assert linked == f"Ich hoffe, {subordinate}"


# --- whole sentences ----------------------------------------------------------------------------

_MAN, _WOMAN = NounPhrase(NOUN["Mann"]), NounPhrase(NOUN["Frau"])
_BOOK, _LETTER = NounPhrase(NOUN["Buch"]), NounPhrase(NOUN["Brief"])
_YESTERDAY = (phrases.PAST_TIMES[0],)
_A_BOOK = NounPhrase(NOUN["Buch"], Determiner.INDEFINITE)
_HER_AUNT = NounPhrase(NOUN["Tante"], Determiner.POSSESSIVE, owner=_SHE)
_READ = Clause(_verb("lesen"), _MAN, Tense.PAST, (_BOOK,))
_IT_BOOK = Pronoun(3, gender=Gender.NEUTER, human=False)
_BE, _HAVE = _verb("sein", 0), _verb("haben")
_NO_TIME = NounPhrase(NOUN["Zeit"], Determiner.NEGATIVE)
_TO_BERLIN = Place(City("Berlin", "Berlin"), towards=True)
_GARDEN = Place(next(venue for venue in phrases.VENUES if venue.noun.german == "Garten"))


def _with_relative(head: NounPhrase, clause: Clause) -> NounPhrase:
    return NounPhrase(head.noun, head.determiner, head.plural, head.adjectives, relative=clause)


_GOLD = [
    (Sentence(Clause(_verb("lesen"), _MAN, Tense.PAST, (_BOOK,), times=_YESTERDAY,
                     front=Front.TIME)),
     "Gestern hat der Mann das Buch gelesen.",
     "Yesterday, the man read the book."),
    (Sentence(Clause(_verb("schreiben"), _WOMAN, Tense.PAST, (_LETTER,), times=_YESTERDAY,
                     front=Front.OBJECT)),
     "Den Brief hat die Frau gestern geschrieben.",
     "The letter was written by the woman yesterday."),
    (Sentence(Clause(_verb("lesen"), _MAN, Tense.PAST, (_A_BOOK,), place=_GARDEN)),
     "Der Mann hat im Garten ein Buch gelesen.",
     "The man read a book in the garden."),
    (Sentence(Clause(_verb("geben", 2), _WOMAN, Tense.PAST, (_MAN, _BOOK), times=_YESTERDAY)),
     "Die Frau hat gestern dem Mann das Buch gegeben.",
     "The woman gave the book to the man yesterday."),
    (Sentence(Clause(_verb("geben", 2), _WOMAN, Tense.PAST, (_HE, _IT_BOOK), times=_YESTERDAY)),
     "Die Frau hat es ihm gestern gegeben.",
     "The woman gave it to him yesterday."),
    (Sentence(Clause(_verb("abholen"), _ANNA, Tense.FUTURE, (_HE,))),
     "Anna wird ihn abholen.",
     "Anna will pick him up."),
    (Sentence(Clause(_verb("fahren", 0), _PETER, Tense.PAST, place=_TO_BERLIN, negated=True)),
     "Peter ist nicht nach Berlin gefahren.",
     "Peter did not drive to Berlin."),
    (Sentence(Clause(_verb("lesen"), _MAN, Tense.PRESENT,
                     (NounPhrase(NOUN["Buch"], Determiner.NEGATIVE, True),),
                     negated=True, ongoing=True)),
     "Der Mann liest keine Bücher.",
     "The man is not reading any books."),
    (Sentence(Clause(_verb("trinken"), _SHE, Tense.PRESENT,
                     (NounPhrase(NOUN["Kaffee"], Determiner.INDEFINITE),),
                     frequency=phrases.FREQUENCIES[0])),
     "Sie trinkt oft Kaffee.",
     "She often drinks coffee."),
    (Sentence(Clause(_verb("ausruhen", 0), _MAN, Tense.PAST, times=_YESTERDAY, front=Front.TIME)),
     "Gestern hat sich der Mann ausgeruht.",
     "Yesterday, the man rested."),
    (Sentence(Clause(_verb("freuen"), Pronoun(1), Tense.PRESENT, (NounPhrase(NOUN["Fest"]),),
                     ongoing=True)),
     "Ich freue mich auf das Fest.",
     "I am looking forward to the party."),
    (Sentence(Clause(_verb("lesen"), _SHE, Tense.PAST,
                     (_with_relative(_BOOK, Clause(_verb("kaufen"), _MAN, Tense.PAST,
                                                   (Relative(NOUN["Buch"], False),))),))),
     "Sie hat das Buch gelesen, das der Mann gekauft hat.",
     "She read the book that the man bought."),
    (Sentence(Clause(_verb("lachen", 0),
                     _with_relative(_MAN, Clause(_verb("helfen"), Pronoun(1, plural=True),
                                                 Tense.PAST, (Relative(NOUN["Mann"], False),))),
                     Tense.PAST)),
     "Der Mann, dem wir geholfen haben, hat gelacht.",
     "The man that we helped laughed."),
    (Sentence(Clause(_verb("lachen", 0),
                     _with_relative(_WOMAN, Clause(
                         _verb("wohnen", 0),
                         NounPhrase(NOUN["Bruder"], Determiner.POSSESSIVE,
                                    owner=Relative(NOUN["Frau"], False)),
                         Tense.PRESENT, place=Place(City("Wien", "Vienna")))),
                     Tense.PRESENT, ongoing=True)),
     "Die Frau, deren Bruder in Wien wohnt, lacht.",
     "The woman whose brother lives in Vienna is laughing."),
    (Sentence(Clause(_verb("warten"), _PETER, Tense.PAST,
                     (_with_relative(NounPhrase(NOUN["Kind"], plural=True),
                                     Clause(_verb("sprechen"), _ANNA, Tense.PAST,
                                            (Relative(NOUN["Kind"], True),))),))),
     "Peter hat auf die Kinder gewartet, mit denen Anna gesprochen hat.",
     "Peter waited for the children that Anna spoke to."),
    (Sentence(_READ, Link(phrases.BECAUSE,
                          Clause(_BE, _IT_BOOK, Tense.PAST,
                                 predicate=Comparison(ADJECTIVE["spannend"])))),
     "Der Mann hat das Buch gelesen, weil es spannend war.",
     "The man read the book because it was exciting."),
    (Sentence(Clause(_verb("arbeiten", 0), _SHE, Tense.PAST, negated=True),
              Link(phrases.BECAUSE, Clause(_HAVE, _ANNA, Tense.PAST, (_NO_TIME,), negated=True),
                   first=True)),
     "Weil Anna keine Zeit hatte, hat sie nicht gearbeitet.",
     "Because Anna did not have any time, she did not work."),
    (Sentence(Clause(_verb("anrufen"), _SHE, Tense.NARRATIVE, (_HER_AUNT,)),
              Link(phrases.AFTER, Clause(_verb("ankommen", 0), _ANNA, Tense.PLUPERFECT),
                   first=True)),
     "Nachdem Anna angekommen war, rief sie ihre Tante an.",
     "After Anna had arrived, she called her aunt."),
    (Sentence(Clause(_verb("lesen"), _MAN, Tense.NARRATIVE, (_BOOK,)),
              Link(phrases.WHILE, Clause(_verb("schlafen", 0), _WOMAN, Tense.NARRATIVE,
                                         ongoing=True))),
     "Der Mann las das Buch, während die Frau schlief.",
     "The man read the book while the woman was sleeping."),
    (Sentence(Clause(_verb("besuchen"), Pronoun(1), Tense.FUTURE, (_ANNA,)),
              Link(phrases.IF, Clause(_verb("regnen", 0), It(), Tense.PRESENT), first=True)),
     "Wenn es regnet, werde ich Anna besuchen.",
     "If it rains, I will visit Anna."),
    (Sentence(Clause(_verb("vergessen", 0), _SHE, Tense.PAST),
              Link(None, Clause(_verb("anrufen"), None, Tense.PRESENT, (_HER_AUNT,)))),
     "Sie hat vergessen, ihre Tante anzurufen.",
     "She forgot to call her aunt."),
    (Sentence(Clause(_verb("reisen", 0), _SHE, Tense.PAST, place=_TO_BERLIN,
                     vehicle=NOUN["Zug"]),
              Link(phrases.IN_ORDER, Clause(_verb("besuchen"), None, Tense.PRESENT,
                                            (_HER_AUNT,)))),
     "Sie ist mit dem Zug nach Berlin gereist, um ihre Tante zu besuchen.",
     "She travelled to Berlin by train in order to visit her aunt."),
    (Sentence(Clause(_verb("arbeiten", 0), _PETER, Tense.PAST, modal=phrases.MODAL["wollen"]),
              Link(phrases.BUT, Clause(_BE, _HE, Tense.PAST,
                                       predicate=Comparison(ADJECTIVE["krank"])))),
     "Peter wollte arbeiten, aber er war krank.",
     "Peter wanted to work, but he was ill."),
    (Sentence(Clause(_verb("wissen", 0), Pronoun(1), Tense.PRESENT, negated=True),
              Link(None, Clause(_verb("ankommen", 0), NounPhrase(NOUN["Zug"]), Tense.FUTURE,
                                asked=phrases.WHEN_ASKED))),
     "Ich weiß nicht, wann der Zug ankommen wird.",
     "I do not know when the train will arrive."),
    (Sentence(_READ, question=True),
     "Hat der Mann das Buch gelesen?",
     "Did the man read the book?"),
    (Sentence(Clause(_verb("warten"), Pronoun(2), Tense.PRESENT, (Interrogative(True),),
                     ongoing=True), question=True),
     "Auf wen wartest du?",
     "Who are you waiting for?"),
    (Sentence(Clause(_verb("aufmachen"), Interrogative(True), Tense.PAST,
                     (NounPhrase(NOUN["Fenster"]),)), question=True),
     "Wer hat das Fenster aufgemacht?",
     "Who opened the window?"),
    (Sentence(Clause(_verb("kaufen"), _ANNA, Tense.PAST,
                     (NounPhrase(NOUN["Buch"], Determiner.HOW_MANY, True),)), question=True),
     "Wie viele Bücher hat Anna gekauft?",
     "How many books did Anna buy?"),
    (Sentence(Clause(_verb("wohnen", 0), Pronoun(2), Tense.PRESENT, asked=phrases.WHERE_ASKED),
              question=True),
     "Wo wohnst du?",
     "Where do you live?"),
    (Sentence(Clause(_verb("gehen", 0), _PETER, Tense.PRESENT, ongoing=True,
                     asked=phrases.WHERE_TO_ASKED), question=True),
     "Wohin geht Peter?",
     "Where is Peter going?"),
    (Sentence(Clause(_verb("kosten", 0), NounPhrase(NOUN["Fahrrad"]), Tense.PRESENT,
                     predicate=Measure(345, NOUN["Euro"]))),
     "Das Fahrrad kostet dreihundertfünfundvierzig Euro.",
     "The bicycle costs three hundred and forty-five euros."),
    (Sentence(Clause(_BE, _HE, Tense.PRESENT,
                     predicate=Measure(21, NOUN["Jahr"], ADJECTIVE["alt"]))),
     "Er ist einundzwanzig Jahre alt.",
     "He is twenty-one years old."),
    (Sentence(Clause(_BE, NounPhrase(NOUN["Haus"]), Tense.PRESENT,
                     predicate=Comparison(ADJECTIVE["alt"], NounPhrase(NOUN["Wohnung"])))),
     "Das Haus ist älter als die Wohnung.",
     "The house is older than the flat."),
    (Sentence(Clause(_verb("träumen"), _MAN, Tense.PAST, (NounPhrase(NOUN["Fest"]),))),
     "Der Mann hat vom Fest geträumt.",
     "The man dreamed of the party."),
    (Sentence(Clause(_verb("anbieten", 2), _PETER, Tense.PAST,
                     (NounPhrase(NOUN["Frau"], Determiner.INDEFINITE), NounPhrase(NOUN["Käse"])))),
     "Peter hat einer Frau den Käse angeboten.",
     "Peter offered the cheese to a woman."),
    (Sentence(Clause(_verb("brauchen"), Pronoun(1), Tense.PRESENT, (_IT_BOOK,), no_longer=True)),
     "Ich brauche es nicht mehr.",
     "I no longer need it."),
    (Sentence(Clause(_verb("lesen"), Pronoun(1), Tense.PRESENT, (_BOOK,), negated=True,
                     modal=phrases.MODAL["können"])),
     "Ich kann das Buch nicht lesen.",
     "I cannot read the book."),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "german_text", "english_text"), _GOLD)
def test_gold_pairs(sentence: Sentence, german_text: str, english_text: str) -> None:
    assert german.realise(sentence) == german_text
    assert english.realise(sentence) == english_text


# --- lexicon ------------------------------------------------------------------------------------


def test_size_of_lexicon() -> None:
    assert len(NOUNS) >= 60
    assert len({verb.lemma for verb in VERBS}) >= 50
    assert len({verb.lemma for verb in VERBS if verb.prefix}) >= 10
    assert len(ADJECTIVES) >= 25


def test_no_two_nouns_share_a_translation() -> None:
    assert len({noun.english for noun in NOUNS}) == len(NOUNS)
    assert len({entry.english for entry in ADJECTIVES}) == len(ADJECTIVES)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["Bus m", "Busses", "Busse", "bus", "transport"], "buses"),
        (["Küche f", "Küche", "Küchen", "kitchen", "room"], "kitchens"),
        (["Frau f", "Frau", "Frauen", "woman/women", "person"], "women"),
        (["Stadt f", "Stadt", "Städte", "city", "place"], "cities"),
    ],
)
def test_english_plural(cells: list[str], expected: str) -> None:
    assert parse_noun(cells).english_plural == expected


# --- corpus -------------------------------------------------------------------------------------

# 'das Buch, das das Kind las', 'ob sie sie sieht', 'did you try on on Friday', 'um fünf nach zwei zwei Hüte'.
_DOUBLED = "der die das dem den sie on zwei drei vier fünf sechs sieben acht neun zehn".split()  # noqa: SIM905
_SIZES = {"train": 24000, "valid": 500, "test": 500}


def _generate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, str(_SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The corpus at its default size, by file name."""
    directory = tmp_path_factory.mktemp("grammar") / "corpus"
    result = _generate(str(directory))
    assert (result.returncode, result.stderr) == (0, "")
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["test.de", "test.en", "train.de", "train.en", "valid.de", "valid.en"]
    return {name: (directory / name).read_text(encoding="utf-8").splitlines() for name in names}


@pytest.mark.parametrize("language", ["de", "en"])
def test_splits_are_distinct_and_disjoint(splits: dict[str, list[str]], language: str) -> None:
    sentences = [line for name in _SIZES for line in splits[f"{name}.{language}"]]
    assert {name: len(splits[f"{name}.{language}"]) for name in _SIZES} == _SIZES
    assert len(set(sentences)) == sum(_SIZES.values())


@pytest.mark.parametrize("language", ["de", "en"])
def test_sentences_are_clean(splits: dict[str, list[str]], language: str) -> None:
    clean = re.compile(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß0-9,.' -]*[a-zäöüß][.?]")
    for line in splits[f"train.{language}"]:
        assert clean.fullmatch(line), line
        assert not re.search(r"  | ,|,,|,\S|\bNone\b| [.?]", line), line
        assert 4 <= len(line.split()) <= 25, line
        doubled = re.search(r"\b(\w+) \1\b", line)
        assert not doubled or doubled[1] in _DOUBLED, line


def test_lengths_are_mixed(splits: dict[str, list[str]]) -> None:
    lengths = [len(line.split()) for line in splits["train.de"]]
    assert min(lengths) <= 4
    assert max(lengths) >= 18
    assert 7 <= sum(lengths) / len(lengths) <= 12


_ARTICLE = "(?:der|die|das|den|dem)"
_PHENOMENA = [
    ("de", r"^(?:Gestern|Morgen|Am|Um|Letzt|Nächst|Jed)\w* .*", 0.10),
    ("de", r", (?:weil|dass|obwohl|wenn|nachdem|bevor|während|als|ob) ", 0.12),
    ("de", r"^(?:Weil|Obwohl|Wenn|Nachdem|Bevor|Während|Als) ", 0.05),
    ("de", rf", (?:\w+ )?(?:{_ARTICLE}|denen|dessen|deren) [^,]*(?:hat|habe|haben|ist|sind|wohnt)\b", 0.08),
    ("de", r"\b(?:ab|an|auf|aus|ein|mit|vor|weg|zu|zurück)(?:ge)\w+(?:t|en)\b", 0.05),
    ("de", r" (?:ab|an|auf|aus|ein|fern|mit|vor|weg|zu|zurück)[.?,]", 0.03),
    ("de", r"\bge\w+(?:t|en)\b.*\.$", 0.15),
    ("de", r"\b(?:ist|sind|bin|bist) .*\bge\w+(?:en|t)\b", 0.02),
    ("de", r"\b(?:nicht|kein\w*)\b", 0.08),
    ("de", r"\?$", 0.05),
    ("de", r"\b(?:kann|muss|will|darf|soll|möchte|können|müssen|wollen|dürfen|konnte|musste)", 0.05),
    ("de", r"\b(?:wird|werden|werde|wirst)\b", 0.10),
    ("de", r" um (?:\w+ )*(?:halb|Viertel|Uhr)|\bUm ", 0.05),
    ("de", r"\b[aA]m (?:\d+\.|\w+ten) [A-ZM]", 0.02),
    ("de", r"und(?:zwanzig|dreißig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig)", 0.02),
    ("de", r", (?:um )?[^,]*(?:\bzu|zu)\w* ?\w+en\.$", 0.03),
    ("de", r"\b(?:mein|dein|sein|ihr|unser)(?:e|en|em|er|es)?\b", 0.10),
    ("de", r"\b(?:mich|dich|sich|uns) ", 0.02),
    ("en", r"\b(?:was|were|be) \w+ (?:\w+ )?by ", 0.01),
    ("en", r"\b(?:is|are|am|was|were) (?:not )?(?:\w+ )*?\w+ing\b", 0.05),
    ("en", r"\b(?:did|does|do) (?:not|\w+)\b", 0.08),
    ("en", r"\b(?:who|that|whose) ", 0.08),
]  # fmt: skip


@pytest.mark.parametrize(("language", "pattern", "share"), _PHENOMENA)
def test_phenomenon_is_frequent(splits: dict[str, list[str]], language: str, pattern: str, share: float) -> None:
    lines = splits[f"train.{language}"]
    found = sum(bool(re.search(pattern, line)) for line in lines)
    assert share <= found / len(lines) < 0.9


def test_subordinate_commas(splits: dict[str, list[str]]) -> None:
    for line in splits["train.de"]:
        assert not re.search(r"[^,] (?:weil|obwohl|dass|nachdem|bevor|aber) ", line), line


def test_same_files_whatever_the_hash_seed(tmp_path: Path) -> None:
    sizes = ("--train", "300", "--valid", "20", "--test", "20", "--seed", "7")
    contents = []
    for hash_seed in ("1", "2"):
        directory = tmp_path / hash_seed
        assert _generate(str(directory), *sizes, hash_seed=hash_seed).returncode == 0
        contents.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert contents[0] == contents[1]


def test_seed_matters() -> None:
    assert sample_pairs(20, 1) == sample_pairs(20, 1)
    assert sample_pairs(20, 1) != sample_pairs(20, 2)


def test_sample_pairs_rejects_negative_count() -> None:
    with pytest.raises(ValueError, match="count must be at least 0, but is -1"):
        sample_pairs(-1, 1)


def test_exhausted_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "sentence", lambda rng: Sentence(_READ))
    with pytest.raises(ExhaustedError, match="found only 1 distinct pairs"):
        sample_pairs(2, 1)


def test_exhausted_grammar_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from grammar.generate import main

    monkeypatch.setattr(corpus, "sentence", lambda rng: Sentence(_READ))
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "out")])
    message = "--train + --valid + --test must be at most 1, the number of distinct pairs found"
    assert capsys.readouterr().err == f"generate.py: {message}, but is 25000\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "0"], "--train must be at least 1, but is 0"),
        (["--valid", "-3"], "--valid must be at least 1, but is -3"),
        (["--test", "0", "--seed", "-1"],
         "--test must be at least 1, but is 0; --seed must be at least 0, but is -1"),
        (["--train", "many"], "argument --train: invalid int value: 'many'"),
        (["--train", "1000000"],
         "--train + --valid + --test must be at most 1000000, but is 1001000"),
        (["--size", "3"], "unrecognized arguments: --size 3"),
    ],
)  # fmt: skip
def test_bad_arguments(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = _generate(str(tmp_path / "out"), *arguments)
    assert result.returncode == 2
    assert result.stderr == f"generate.py: {message}\n"
    assert not (tmp_path / "out").exists()


def test_output_must_not_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine", encoding="utf-8")
    result = _generate(str(path))
    assert result.returncode == 2
    assert result.stderr == f"generate.py: OUT_DIR must be a directory, but {path} is a file\n"
    assert path.read_text(encoding="utf-8") == "mine"


def test_help_names_every_option() -> None:
    result = _generate("--help")
    assert result.returncode == 0
    for option in ("OUT_DIR", "--train", "--valid", "--test", "--seed", "24000", "500"):
        assert option in result.stdout
