"""The demo grammar's sentences, against hand-written pairs."""

from __future__ import annotations

import pytest
from grammar import english, german, phrases
from grammar.entries import City, Gender, Verb
from grammar.lexicon import ADJECTIVE, NOUN, VERB
from grammar.meaning import (
    Clause,
    Comparison,
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
    Tense,
)

_PETER = Name("Peter", Gender.MASCULINE)
_ANNA = Name("Anna", Gender.FEMININE)
_SHE = Pronoun(3, gender=Gender.FEMININE)
_HE = Pronoun(3, gender=Gender.MASCULINE)


def _verb(lemma: str, arguments: int = 1) -> Verb:
    return VERB[lemma, arguments]


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
