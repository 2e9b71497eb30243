"""Draw whole sentences: each function is one kind, and the kinds are mixed by weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Optional

from grammar import phrases
from grammar import sample_clauses as clauses
from grammar import sample_links as links
from grammar import sample_phrases as draw
from grammar.lexicon import (
    ADJECTIVE,
    ADJECTIVES,
    NOUN,
    VERB,
)
from grammar.meaning import (
    Clause,
    Comparison,
    Determiner,
    Front,
    Interrogative,
    Measure,
    Nominal,
    NounPhrase,
    Place,
    Pronoun,
    Sentence,
    Tense,
)


def sentence(rng: Random) -> Sentence:
    """Draw one sentence."""
    while True:
        found = draw.weighted(rng, *_KINDS)(rng)
        if found is not None:
            return found


def simple(rng: Random) -> Optional[Sentence]:
    """Der Mann hat gestern das Buch gelesen."""
    return Sentence(clauses.statement(rng, draw.person(rng)))


def about_object(rng: Random) -> Optional[Sentence]:
    """Die Frau liest das Buch, das sie gekauft hat: a relative clause on an object."""
    main = clauses.statement(rng, draw.person(rng))
    found = main.objects[-1] if main.objects else None
    prepositional = main.verb.arguments and main.verb.arguments[-1].english_preposition
    if not isinstance(found, NounPhrase) or main.front is not Front.SUBJECT or main.negated:
        return None
    if found.owner or not clauses.can_be_told_about(found.noun):
        return None
    if len(main.objects) == 2 and not prepositional and main.verb.arguments[0].english_preposition:
        return None
    head = found if found.determiner is Determiner.INDEFINITE else draw.known(found)
    head = replace(head, relative=clauses.about(rng, found.noun, found.plural, main.verb))
    plain = replace(main, objects=(*main.objects[:-1], head), manner=None, place=None, times=())
    if main.times == (phrases.NOW,):
        return Sentence(plain)
    opening = Front.TIME if main.times else Front.SUBJECT
    return Sentence(replace(plain, times=main.times, front=opening))


def about_subject(rng: Random) -> Optional[Sentence]:
    """Der Mann, der in Berlin wohnt, ist krank: a relative clause on the subject."""
    if draw.chance(rng, 0.4):
        noun = rng.choice(draw.nouns_of("thing", "text", "film", "food", "gift"))
        head = NounPhrase(noun, plural="mass" not in noun.classes and draw.chance(rng, 0.2))
        adjective = draw.qualities(noun)
        if not adjective or not clauses.can_be_told_about(noun):
            return None
        tense = rng.choice((Tense.PRESENT, Tense.PAST))
        main = clauses.state(head, rng.choice(adjective).german, tense)
    else:
        head = replace(draw.stranger(rng), determiner=Determiner.DEFINITE, count=0)
        main = clauses.statement(rng, head)
        if main.front is not Front.SUBJECT:
            return None
    head = replace(head, relative=clauses.about(rng, head.noun, head.plural, main.verb))
    return Sentence(replace(main, subject=head))


def description(rng: Random) -> Optional[Sentence]:
    """Das Haus ist älter als die Wohnung: a quality, a comparison or a measure."""
    adjective = rng.choice([entry for entry in ADJECTIVES if entry.classes])
    nouns = draw.nouns_of(*adjective.classes)
    noun, other = rng.choice(nouns), rng.choice(nouns)
    plural = "mass" not in noun.classes and draw.chance(rng, 0.25)
    subject: Nominal = NounPhrase(noun, _determiner(rng), plural)
    if noun.is_person:
        subject = draw.name(rng) if draw.chance(rng, 0.3) else NounPhrase(noun, plural=plural)
    if "kin" in noun.classes:
        return None
    tense = rng.choice((Tense.PRESENT, Tense.PRESENT, Tense.PAST))
    if draw.chance(rng, 0.5) or noun == other or not _comparable(noun.classes, other.classes):
        negated = draw.chance(rng, 0.3)
        predicate = Comparison(adjective)
        return Sentence(Clause(clauses.BE, subject, tense, predicate=predicate, negated=negated))
    than = NounPhrase(other, plural="mass" not in other.classes and plural)
    return Sentence(Clause(clauses.BE, subject, tense, predicate=Comparison(adjective, than)))


def measure(rng: Random) -> Optional[Sentence]:
    """Das Fahrrad kostet dreihundert Euro: a price, an age, a length."""
    kind = rng.choice(("price", "price", "age", "pages", "minutes"))
    count = rng.randint(3, 999)
    if count % 100 == 1:
        return None
    tense = rng.choice((Tense.PRESENT, Tense.PAST))
    if kind == "price":
        noun = rng.choice(draw.nouns_of("goods", "vehicle"))
        subject = NounPhrase(noun, _determiner(rng), adjectives=draw.describe(rng, noun, 0.3))
        if draw.fits(noun, ("book", "clothes")):
            count = (8 if "book" in noun.classes else 25) + count % 70
        price = Measure(count, NOUN["Euro"])
        return Sentence(Clause(VERB["kosten", 0], subject, tense, predicate=price))
    if kind == "age":
        somebody = draw.person(rng)
        age = Measure(_age(rng, somebody), NOUN["Jahr"], ADJECTIVE["alt"])
        return Sentence(Clause(clauses.BE, somebody, tense, predicate=age))
    if kind == "pages":
        book = NounPhrase(rng.choice((NOUN["Buch"], NOUN["Roman"], NOUN["Bericht"])), _determiner(rng))
        pages = Measure(count, NOUN["Seite"])
        return Sentence(Clause(clauses.HAVE, book, tense, predicate=pages))
    length = Measure(80 + count % 110, NOUN["Minute"])
    if length.count == 101:
        return None
    film = NounPhrase(NOUN["Film"], _determiner(rng))
    return Sentence(Clause(VERB["dauern", 0], film, tense, predicate=length))


def arrival(rng: Random) -> Optional[Sentence]:
    """Der Zug kommt um halb vier in Berlin an."""
    subject = NounPhrase(rng.choice(draw.nouns_of("transport")))
    where = Place(rng.choice(phrases.CITIES[:16])) if draw.chance(rng, 0.6) else None
    tense = rng.choice((Tense.PRESENT, Tense.FUTURE, Tense.PAST))
    times = (draw.clock_time(rng),)
    clause = Clause(VERB["ankommen", 0], subject, tense, times=times, place=where)
    return Sentence(clauses.fronted(rng, clause))


def question(rng: Random) -> Optional[Sentence]:
    """Hat er das Buch gelesen? Also who, what, when, where, why, how many."""
    kind = rng.choice(("whether", "whether", "who", "object", "adverb", "many"))
    subject: Nominal = draw.person(rng, 0.45)
    if subject == Pronoun(1):
        # One hardly asks others what one did oneself.
        subject = Pronoun(2)
    if kind == "who":
        subject = Interrogative(human=True)
    clause = _asked_about(rng, subject, counted=kind == "many")
    if kind in ("whether", "who"):
        return Sentence(clause, question=True)
    if kind == "object":
        asked = clauses.question_object(clause)
        return Sentence(asked, question=True) if asked else None
    if kind == "adverb":
        return Sentence(_ask_adverb(rng, clause), question=True)
    found = clause.objects[-1] if clause.objects else None
    if not isinstance(found, NounPhrase) or clause.verb.arguments[-1].german_preposition:
        return None
    if "mass" in found.noun.classes or found.noun.is_person:
        return None
    many = NounPhrase(found.noun, Determiner.HOW_MANY, plural=True)
    return Sentence(replace(clause, objects=(*clause.objects[:-1], many)), question=True)


def _asked_about(rng: Random, subject: Nominal, counted: bool) -> Clause:
    past = counted or draw.chance(rng, 0.55)
    if past:
        clause = clauses.act(rng, clauses.DEEDS, subject, Tense.PAST)
        return clauses.when(rng, clause) if draw.chance(rng, 0.5) else clause
    if draw.chance(rng, 0.5):
        return replace(clauses.act(rng, clauses.LASTING, subject, Tense.PRESENT), ongoing=True)
    clause = clauses.act(rng, clauses.INTENDED, subject, Tense.PRESENT)
    names = ("müssen", "wollen", "können")
    return replace(clause, modal=phrases.MODAL[rng.choice(names)])


def _ask_adverb(rng: Random, clause: Clause) -> Clause:
    if clause.place and "to" in clause.verb.tags and draw.chance(rng, 0.6):
        return replace(clause, asked=phrases.WHERE_TO_ASKED, place=None)
    if clause.place and draw.chance(rng, 0.6):
        return replace(clause, asked=phrases.WHERE_ASKED, place=None)
    if clause.ongoing or draw.chance(rng, 0.5):
        return replace(clause, asked=phrases.WHY_ASKED)
    return replace(clause, asked=phrases.WHEN_ASKED, times=())


def _age(rng: Random, somebody: Nominal) -> int:
    if isinstance(somebody, NounPhrase):
        if draw.fits(somebody.noun, ("young", "offspring")):
            return rng.randint(3, 16)
        if draw.fits(somebody.noun, ("grandfather", "grandmother")):
            return rng.randint(60, 99)
        if draw.fits(somebody.noun, ("student",)):
            return rng.randint(18, 29)
    return rng.randint(20, 85)


def _determiner(rng: Random) -> Determiner:
    return rng.choice((Determiner.DEFINITE, Determiner.DEFINITE, Determiner.DEMONSTRATIVE))


def _comparable(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return one[0] == other[0]


_Kind = Callable[[Random], Optional[Sentence]]
_KINDS: tuple[tuple[float, _Kind], ...] = (
    (0.32, simple),
    (0.09, about_object),
    (0.06, about_subject),
    (0.05, description),
    (0.06, measure),
    (0.07, links.reason),
    (0.08, links.hindrance),
    (0.05, links.condition),
    (0.08, links.sequence),
    (0.08, links.report),
    (0.06, links.infinitive),
    (0.02, arrival),
    (0.09, question),
)
