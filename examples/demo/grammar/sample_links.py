"""Draw sentences of two clauses, one of which explains, conditions or reports the other."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Optional

from grammar import phrases
from grammar import sample_clauses as clauses
from grammar import sample_phrases as draw
from grammar.entries import Phrase
from grammar.lexicon import (
    ADJECTIVE,
    OBJECT_REASONS,
    SUBJECT_REASONS,
    VERB,
    VERBS,
)
from grammar.meaning import (
    Clause,
    Front,
    Link,
    Nominal,
    NounPhrase,
    Pronoun,
    Sentence,
    Tense,
)

_ARRIVALS = tuple(verb for verb in clauses.ACTIONS if "arrive" in verb.tags)
_ERRANDS = tuple(VERB[name, 1] for name in ("besuchen", "treffen", "abholen", "kaufen", "fotografieren"))
_CLAUSE_VERBS = tuple(verb for verb in VERBS if "clause" in verb.tags)
_INFINITIVE_VERBS = tuple(verb for verb in VERBS if "infinitive" in verb.tags)
_IN_RAIN = (
    "lesen",
    "schreiben",
    "kochen",
    "backen",
    "ansehen",
    "aufräumen",
    "schlafen",
    "arbeiten",
    "fernsehen",
    "putzen",
    "malen",
    "reparieren",
    "abholen",
    "anrufen",
    "erzählen",
)
_IN_SUNSHINE = (
    "waschen",
    "fotografieren",
    "tanzen",
    "gehen",
    "fahren",
    "malen",
    "essen",
    "trinken",
    "ausgehen",
    "bauen",
    "putzen",
    "lesen",
    "besuchen",
    "einladen",
    "abreisen",
    "ausleihen",
)
_HINDRANCES = ("müde", "krank", "time")


def reason(rng: Random) -> Optional[Sentence]:
    """Er hat das Buch gekauft, weil es billig war."""
    subject = draw.person(rng)
    again = draw.as_pronoun(subject)
    past = draw.chance(rng, 0.7)
    verbs = tuple(v for v in clauses.DEEDS if v.lemma in OBJECT_REASONS or "get" in v.tags)
    if not past:
        verbs = tuple(verb for verb in verbs if "event" not in verb.tags)
    main = clauses.act(rng, verbs, subject, Tense.PAST if past else Tense.PRESENT)
    main = replace(main, ongoing=not past)
    tense = Tense.PAST if past else Tense.PRESENT
    choices: list[Clause] = []
    found = main.objects[-1] if main.objects else None
    taken_up = draw.as_pronoun(found)
    if taken_up == again:
        # One pronoun for both would leave open who was dirty, the sons or the rooms.
        taken_up = None
    for name in OBJECT_REASONS.get(main.verb.lemma, ()):
        suits = isinstance(found, NounPhrase) and _may_be(found, name)
        if taken_up and taken_up.person == 3 and suits:
            choices.append(clauses.state(taken_up, name, tense))
    for name in SUBJECT_REASONS.get(main.verb.lemma, ()):
        if again:
            choices.append(clauses.state(again, name, tense))
    if again and taken_up and isinstance(found, NounPhrase):
        choices += _purposes(rng, main, again, found, taken_up)
    if not choices:
        return None
    if past and draw.chance(rng, 0.35):
        main = clauses.when(rng, main)
    return _joined(rng, main, phrases.BECAUSE, rng.choice(choices))


def hindrance(rng: Random) -> Optional[Sentence]:
    """Er hat nicht gearbeitet, weil er müde war: also with obwohl and aber."""
    subject = draw.person(rng)
    again = draw.as_pronoun(subject)
    if again is None:
        return None
    what = rng.choice(_HINDRANCES)
    tense = draw.weighted(rng, (0.7, Tense.PAST), (0.3, Tense.FUTURE))
    state_tense = Tense.PAST if tense is Tense.PAST else Tense.PRESENT
    cause = (
        clauses.state(again, what, state_tense)
        if what != "time"
        else clauses.has_time(again, state_tense, negated=True)
    )
    main = clauses.act(rng, clauses.INTENDED, subject, tense)
    kind = rng.choice(("because", "although", "but"))
    if tense is Tense.PAST and draw.chance(rng, 0.4):
        main = clauses.when(rng, main)
    if kind == "because":
        return _joined(rng, clauses.negate(main), phrases.BECAUSE, cause)
    if kind == "although":
        return _joined(rng, main, phrases.ALTHOUGH, cause)
    wish = replace(main, modal=phrases.MODAL["wollen"], tense=state_tense)
    return Sentence(wish, Link(phrases.BUT, cause))


def condition(rng: Random) -> Optional[Sentence]:
    """Wenn er Zeit hat, wird er seine Tante besuchen."""
    subject = draw.person(rng)
    main = clauses.act(rng, clauses.INTENDED, subject, Tense.FUTURE)
    if draw.chance(rng, 0.3):
        main = replace(main, tense=Tense.PRESENT, modal=phrases.MODAL["können"])
    if draw.chance(rng, 0.4):
        return _weather_condition(rng, main)
    again = draw.as_pronoun(subject)
    if again is None:
        return None
    first = clauses.has_time(again, Tense.PRESENT)
    return _joined(rng, main, phrases.IF, first)


def _weather_condition(rng: Random, main: Clause) -> Optional[Sentence]:
    """What people do at home in the rain, and outside in the sun."""
    weather = clauses.weather(rng, Tense.PRESENT)
    fine = weather.verb.lemma == "scheinen"
    if main.verb.lemma not in (_IN_SUNSHINE if fine else _IN_RAIN):
        return None
    place = main.place if fine or "to" in main.verb.tags else None
    return _joined(rng, replace(main, place=place), phrases.IF, weather)


def sequence(rng: Random) -> Optional[Sentence]:
    """Nachdem sie den Brief gelesen hatte, rief sie ihn an: also bevor, während and als."""
    kind = rng.choice((phrases.AFTER, phrases.BEFORE, phrases.WHILE, phrases.WHEN))
    subject = draw.person(rng, 0.1)
    if kind in (phrases.AFTER, phrases.BEFORE):
        again = draw.as_pronoun(subject)
        if again is None or again.person == 2:
            return None
        main = clauses.act(rng, clauses.INTENDED, subject, Tense.NARRATIVE)
        tense = Tense.PLUPERFECT if kind is phrases.AFTER else Tense.NARRATIVE
        other = clauses.act(rng, clauses.INTENDED, again, tense)
        return _joined(rng, main, kind, other) if main.verb != other.verb else None
    somebody = draw.person(rng, 0)
    if somebody == subject or Pronoun(2) in (somebody, subject):
        return None
    main = clauses.act(rng, clauses.LASTING, subject, Tense.NARRATIVE)
    verbs = clauses.LASTING if kind is phrases.WHILE else _ARRIVALS
    other = clauses.act(rng, verbs, somebody, Tense.NARRATIVE)
    if main.verb == other.verb:
        return None
    if kind is phrases.WHILE:
        return _joined(rng, main, kind, replace(other, ongoing=True))
    if draw.chance(rng, 0.4):
        other = replace(other, times=(draw.clock_time(rng),))
    return _joined(rng, replace(main, ongoing=True), kind, other)


def report(rng: Random) -> Optional[Sentence]:
    """Sie glaubt, dass er morgen kommen wird: also ob, wann and warum."""
    speaker, subject = draw.person(rng, 0.3), draw.person(rng, 0.4)
    if speaker == subject and not isinstance(speaker, Pronoun):
        return None
    kind = rng.choice(("that", "that", "ask", "unknown"))
    clause = _reported(rng, subject, may_deny=kind == "that")
    if kind == "that":
        verb = rng.choice(_CLAUSE_VERBS)
        tense = Tense.PAST if "event" in verb.tags else Tense.PRESENT
        return Sentence(Clause(verb, speaker, tense), Link(phrases.THAT, clause))
    word = rng.choice((phrases.WHETHER, phrases.WHEN_ASKED, phrases.WHY_ASKED))
    if word is not phrases.WHETHER:
        clause = replace(clause, asked=word)
        if word is phrases.WHEN_ASKED:
            clause = replace(clause, times=())
    link = Link(None if clause.asked else word, replace(clause, front=Front.SUBJECT))
    if kind == "ask":
        return Sentence(Clause(VERB["fragen", 0], speaker, Tense.PAST), link)
    return Sentence(Clause(VERB["wissen", 0], speaker, Tense.PRESENT, negated=True), link)


def infinitive(rng: Random) -> Optional[Sentence]:
    """Er hat vergessen, sie anzurufen: also um zu."""
    subject = draw.person(rng)
    if draw.chance(rng, 0.4):
        main = clauses.act(rng, (VERB["fahren", 0], VERB["reisen", 0]), subject, Tense.PAST)
        main = replace(main, place=draw.place(rng, ("city",), towards=True))
        if draw.chance(rng, 0.5):
            main = clauses.fronted(rng, clauses.when(rng, main))
        goal = replace(clauses.act(rng, _ERRANDS, subject, Tense.PRESENT), subject=None)
        return Sentence(main, Link(phrases.IN_ORDER, goal))
    verb = rng.choice(_INFINITIVE_VERBS)
    ongoing = verb.lemma == "versuchen" and draw.chance(rng, 0.4)
    main = Clause(verb, subject, Tense.PRESENT if ongoing else Tense.PAST, ongoing=ongoing)
    verbs = clauses.LASTING_TASKS if verb.lemma == "anfangen" else clauses.TASKS
    goal = replace(clauses.act(rng, verbs, subject, Tense.PRESENT), subject=None)
    if not ongoing and draw.chance(rng, 0.4):
        main = replace(clauses.when(rng, main), front=Front.TIME)
    return Sentence(main, Link(None, goal))


def _reported(rng: Random, subject: Nominal, may_deny: bool) -> Clause:
    tense = rng.choice((Tense.PAST, Tense.FUTURE))
    verbs = clauses.DEEDS if tense is Tense.PAST else clauses.INTENDED
    clause = clauses.act(rng, verbs, subject, tense)
    if draw.chance(rng, 0.5):
        clause = clauses.when(rng, clause)
    return clauses.negate(clause) if may_deny and draw.chance(rng, 0.2) else clause


def _purposes(rng: Random, main: Clause, again: Pronoun, found: NounPhrase, taken_up: Pronoun) -> list[Clause]:
    """He got it to make use of it; he parted with it for want of use."""
    if "part" in main.verb.tags and "building" not in found.noun.classes:
        need = Clause(VERB["brauchen", 1], again, Tense.PRESENT, (taken_up,), no_longer=True)
        return [need]
    if "get" not in main.verb.tags or main.ongoing:
        return []
    goals = []
    for verb in clauses.INTENDED:
        last = verb.arguments[-1] if verb.arguments else None
        if "use" in verb.tags and last and draw.fits(found.noun, last.classes):
            goal = clauses.act(rng, (verb,), again, Tense.PAST)
            objects = (*goal.objects[:-1], taken_up)
            wollen = phrases.MODAL["wollen"]
            goals.append(replace(goal, objects=objects, modal=wollen, place=None))
    return goals


def _may_be(found: NounPhrase, name: str) -> bool:
    """Any thing may be dirty or broken, but a boring film is not watched for being exciting."""
    classes = ADJECTIVE[name].classes
    return not classes or (not found.adjectives and draw.fits(found.noun, classes))


def _joined(rng: Random, main: Clause, word: Phrase, clause: Clause) -> Sentence:
    """Attach a subordinate clause, sometimes in front, where nouns come before their pronouns."""
    first = draw.chance(rng, 0.45) and not _looks_back(main, clause)
    if first:
        main, clause = _swap_pronouns(main, clause)
    return Sentence(replace(main, front=Front.SUBJECT), Link(word, clause, first))


def _looks_back(main: Clause, clause: Clause) -> bool:
    """True if a pronoun in the clause takes up an object of the main clause."""
    objects = [draw.as_pronoun(o) for o in main.objects if not isinstance(o, Pronoun)]
    found = (clause.subject, *clause.objects)
    subject = draw.as_pronoun(main.subject)
    return any(isinstance(o, Pronoun) and o in objects and o != subject for o in found)


def _swap_pronouns(main: Clause, clause: Clause) -> tuple[Clause, Clause]:
    again = draw.as_pronoun(main.subject)
    if again is not None and again == clause.subject:
        return replace(main, subject=again), replace(clause, subject=main.subject)
    return main, clause
