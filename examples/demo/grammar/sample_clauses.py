"""Draw clauses: who does what, when, where and with whom."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Optional

from grammar import sample_phrases as draw
from grammar.entries import Case, Noun, Verb
from grammar.lexicon import ADJECTIVE, NOUN, VERB, VERBS
from grammar.meaning import (
    Clause,
    Comparison,
    Determiner,
    Front,
    Interrogative,
    It,
    Name,
    Nominal,
    NounPhrase,
    Pronoun,
    Relative,
    Tense,
)
from grammar.phrases import FREQUENCIES, MANNERS, MODAL, MODALS, NOW

BE, HAVE = VERB["sein", 0], VERB["haben", 1]
_SPECIAL = {"sky", "clause", "ask", "infinitive", "measure"}
ACTIONS = tuple(verb for verb in VERBS if verb not in (BE, HAVE) and not any(tag in _SPECIAL for tag in verb.tags))
DEEDS = tuple(verb for verb in ACTIONS if "state" not in verb.tags)
INTENDED = tuple(verb for verb in DEEDS if "chance" not in verb.tags)
LASTING = tuple(verb for verb in DEEDS if "event" not in verb.tags)
# Verbs that can be done to something, for infinitives that need some substance.
TASKS = tuple(verb for verb in INTENDED if verb.arguments and verb.lemma != "suchen")
LASTING_TASKS = tuple(verb for verb in TASKS if "event" not in verb.tags)


def act(rng: Random, verbs: tuple[Verb, ...], subject: Optional[Nominal], tense: Tense) -> Clause:
    """A clause with nothing but a verb, its subject and what the verb cannot do without."""
    if draw.is_young(subject):
        verbs = tuple(verb for verb in verbs if "adult" not in verb.tags) or verbs
    verb = pick_verb(rng, verbs)
    objects = tuple(draw.object_for(rng, argument, subject) for argument in verb.arguments)
    if len(objects) == 2 and isinstance(objects[1], Pronoun):
        objects = (objects[0], draw.thing(rng, NOUN["Buch"], subject))
    return with_place(rng, Clause(verb, subject, tense, objects))


def pick_verb(rng: Random, verbs: tuple[Verb, ...]) -> Verb:
    """Verbs with objects have more to say, so they come more often."""
    return rng.choices(verbs, [3 if verb.arguments else 2 for verb in verbs])[0]


def with_place(rng: Random, clause: Clause) -> Clause:
    """Add the goal that verbs of motion need, or perhaps the place where it goes on."""
    tags = clause.verb.tags
    if "to" in tags or "at" in tags:
        clause = replace(clause, place=draw.place(rng, tags, towards="to" in tags))
    elif draw.chance(rng, 0.3):
        awaited = [o.noun.classes for o in clause.objects if isinstance(o, NounPhrase)]
        trains = any("transport" in classes for classes in awaited)
        clause = replace(clause, place=draw.place_for(rng, ("transport",) if trains else tags))
    if "means" in tags and draw.chance(rng, 0.6):
        clause = replace(clause, vehicle=rng.choice((NOUN["Zug"], NOUN["Bus"])))
    return clause


def statement(rng: Random, subject: Nominal) -> Clause:
    """A main clause in some tense, with adverbials and perhaps a negation."""
    kind = draw.weighted(rng, (0.4, "past"), (0.28, "present"), (0.14, "future"), (0.18, "modal"))
    if kind == "past":
        return told(rng, act(rng, DEEDS, subject, Tense.PAST))
    if kind == "present":
        return present(rng, subject)
    if kind == "future":
        return told(rng, act(rng, INTENDED, subject, Tense.FUTURE))
    return modal(rng, act(rng, INTENDED, subject, Tense.PRESENT))


def present(rng: Random, subject: Nominal) -> Clause:
    """Something that lasts, is going on right now, or happens regularly."""
    clause = act(rng, ACTIONS, subject, Tense.PRESENT)
    tags = clause.verb.tags
    if "state" in tags:
        return negate(clause) if draw.chance(rng, 0.12) else clause
    # Nobody builds the same house every week.
    if "long" in tags or ("event" not in tags and draw.chance(rng, 0.45)):
        clause = replace(clause, ongoing=True)
        if draw.chance(rng, 0.2):
            return negate(clause)
        return replace(clause, times=(NOW,)) if draw.chance(rng, 0.4) else clause
    # 'He usually gets up' would leave one waiting for a time.
    if (clause.objects or clause.place) and draw.chance(rng, 0.6):
        return replace(clause, frequency=rng.choice(FREQUENCIES))
    return fronted(rng, replace(clause, times=draw.habitual_time(rng)))


def modal(rng: Random, clause: Clause) -> Clause:
    """Put a deed under a modal verb, in the present or past."""
    verb = rng.choice(MODALS)
    past = bool(verb.past) and draw.chance(rng, 0.45)
    clause = replace(clause, modal=verb, tense=Tense.PAST if past else Tense.PRESENT)
    if draw.chance(rng, 0.55):
        clause = fronted(rng, when(rng, clause))
    return negate(clause) if verb != MODAL["möchten"] and draw.chance(rng, 0.2) else clause


def when(rng: Random, clause: Clause) -> Clause:
    """Add a time that goes with the tense and the verb of a clause."""
    draw_time = draw.past_time if clause.tense is Tense.PAST else draw.future_time
    return replace(clause, times=draw_time(rng, clause.verb.tags))


def told(rng: Random, clause: Clause) -> Clause:
    """Complete a past or future clause: time, manner, company, negation, word order."""
    past = clause.tense is Tense.PAST
    if draw.chance(rng, 0.75 if past else 0.6):
        clause = when(rng, clause)
    if may_lead_with_object(clause) and draw.chance(rng, 0.3):
        return replace(clause, front=Front.OBJECT)
    if draw.chance(rng, 0.13):
        return fronted(rng, negate(clause))
    return fronted(rng, embellish(rng, clause))


def embellish(rng: Random, clause: Clause) -> Clause:
    """Perhaps say how it is done, or with whom."""
    tags = clause.verb.tags
    lasting = "event" not in tags
    if lasting and _is_work(clause) and draw.chance(rng, 0.2):
        return replace(clause, manner=rng.choice(MANNERS))
    alone = "alone" in tags or "to" in tags
    if alone and lasting and clause.vehicle is None and draw.chance(rng, 0.25):
        companion = draw.object_for(rng, VERB["besuchen", 1].arguments[0], clause.subject)
        return replace(clause, companion=companion)
    return clause


def _is_work(clause: Clause) -> bool:
    """True for deeds done to things, which one can do quickly or with care."""
    things = all(isinstance(o, NounPhrase) and not o.noun.is_person for o in clause.objects)
    prepositional = any(argument.german_preposition for argument in clause.verb.arguments)
    return bool(clause.objects) and things and not prepositional and clause.place is None


def negate(clause: Clause) -> Clause:
    """Deny a clause; an indefinite object takes kein instead of nicht."""
    kept = clause.place if "to" in clause.verb.tags or "at" in clause.verb.tags else None
    clause = replace(clause, negated=True, manner=None, place=kept)
    return replace(clause, objects=tuple(_under_negation(entry) for entry in clause.objects))


def _under_negation(nominal: Nominal) -> Nominal:
    if not isinstance(nominal, NounPhrase):
        return nominal
    if nominal.noun.is_person and nominal.determiner is Determiner.INDEFINITE:
        return draw.known(nominal)
    if nominal.determiner is Determiner.INDEFINITE:
        return replace(nominal, determiner=Determiner.NEGATIVE)
    return draw.known(nominal) if nominal.determiner is Determiner.COUNTED else nominal


def fronted(rng: Random, clause: Clause) -> Clause:
    """Open with the time, if there is one, about half of the time."""
    if clause.times and clause.times != (NOW,) and draw.chance(rng, 0.5):
        return replace(clause, front=Front.TIME)
    return clause


def may_lead_with_object(clause: Clause) -> bool:
    """True if the object can come first in German and still be told from the subject."""
    if len(clause.objects) != 1 or not isinstance(clause.subject, (NounPhrase, Name)):
        return False
    found, argument = clause.objects[0], clause.verb.arguments[0]
    if argument.english_preposition or argument.german_preposition or "active" in clause.verb.tags:
        return False
    if not isinstance(found, NounPhrase) or isinstance(clause.subject, Pronoun):
        return False
    if found.determiner not in (Determiner.DEFINITE, Determiner.DEMONSTRATIVE):
        return False
    shows_case = argument.case is Case.DATIVE or (found.noun.gender.value == "m" and not found.plural)
    return shows_case or not found.noun.is_person


def about(rng: Random, noun: Noun, plural: bool, told_already: Verb) -> Clause:
    """A relative clause on a noun, which fills its subject, its object or owns its subject."""
    gap = Relative(noun, plural)
    if noun.is_person and draw.chance(rng, 0.55):
        return _about_person(rng, gap)
    fitting = [
        (verb, index)
        for verb in DEEDS
        for index, argument in enumerate(verb.arguments)
        if draw.fits(noun, argument.classes) and verb != told_already
    ]
    verb, index = rng.choice(fitting)
    subject = draw.person(rng, 0.4)
    while isinstance(subject, NounPhrase) and subject.noun == noun:
        subject = draw.person(rng, 0.4)
    clause = act(rng, (verb,), subject, Tense.PAST)
    objects = list(clause.objects)
    objects[index] = gap
    clause = replace(clause, objects=tuple(objects))
    return when(rng, clause) if draw.chance(rng, 0.45) else clause


def _about_person(rng: Random, gap: Relative) -> Clause:
    subject: Nominal = gap
    if draw.chance(rng, 0.3):
        kin = draw.relative_of(rng, gap)
        subject = replace(kin, determiner=Determiner.POSSESSIVE, owner=gap)
    if draw.chance(rng, 0.35):
        return act(rng, (VERB["wohnen", 0],), subject, Tense.PRESENT)
    clause = act(rng, DEEDS, subject, Tense.PAST)
    return when(rng, clause) if draw.chance(rng, 0.4) else clause


def can_be_told_about(noun: Noun) -> bool:
    """True if there is more than one thing to do to the noun."""
    uses = [draw.fits(noun, argument.classes) for verb in DEEDS for argument in verb.arguments]
    return sum(uses) > 1


def state(subject: Nominal, adjective: str, tense: Tense) -> Clause:
    """Somebody or something is so."""
    return Clause(BE, subject, tense, predicate=Comparison(ADJECTIVE[adjective]))


def has_time(subject: Nominal, tense: Tense, negated: bool = False) -> Clause:
    """Somebody has time, or none."""
    determiner = Determiner.NEGATIVE if negated else Determiner.INDEFINITE
    time = NounPhrase(NOUN["Zeit"], determiner)
    return Clause(HAVE, subject, tense, (time,), negated=negated)


def weather(rng: Random, tense: Tense) -> Clause:
    """Rain, snow or sunshine."""
    verb = rng.choice([verb for verb in VERBS if "sky" in verb.tags])
    shines = verb.lemma == "scheinen"
    subject = NounPhrase(NOUN["Sonne"]) if shines else It()
    return Clause(verb, subject, tense)


def question_object(clause: Clause) -> Optional[Clause]:
    """Ask for the first object of a clause, if there is one that who or what can stand for."""
    for index, (argument, found) in enumerate(zip(clause.verb.arguments, clause.objects)):
        human = not isinstance(found, NounPhrase) or found.noun.is_person
        if human or not (argument.german_preposition or argument.case is Case.DATIVE):
            objects = list(clause.objects)
            objects[index] = Interrogative(human)
            return replace(clause, objects=tuple(objects))
    return None
