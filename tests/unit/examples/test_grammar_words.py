"""The demo grammar's words and phrases, against hand-written German and English."""

from __future__ import annotations

import re

import pytest
from grammar import english_forms, english_numbers, german, german_forms, german_numbers, german_phrases, phrases
from grammar.entries import Case, Gender, Verb, parse_verb
from grammar.lexicon import ADJECTIVE, NOUN, VERB
from grammar.meaning import (
    Clause,
    Clock,
    Date,
    Determiner,
    Link,
    Name,
    NounPhrase,
    Pronoun,
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
