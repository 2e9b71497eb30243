"""German syntax: where the verb stands, and in which order the rest follows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Optional

from grammar import german_forms as forms
from grammar import german_phrases as phrases
from grammar.entries import Case
from grammar.german_numbers import time_phrase
from grammar.meaning import (
    Clause,
    Determiner,
    Front,
    Interrogative,
    Link,
    Nominal,
    NounPhrase,
    Pronoun,
    Relative,
    Sentence,
    Tense,
)
from grammar.phrases import BUT, IN_ORDER


class _Order(Enum):
    SECOND = auto()
    FIRST = auto()
    LAST = auto()
    INFINITIVE = auto()


@dataclass(frozen=True)
class _Object:
    """An object with its preposition, and both put into words."""

    meaning: Nominal
    case: Case
    preposition: str
    text: str


_PRETERITE_IN_SPEECH = ("sein", "haben")


def realise(sentence: Sentence) -> str:
    """Say a sentence in German."""
    mark = "?" if sentence.question else "."
    inverted = sentence.link is not None and sentence.link.first
    asks_yes_or_no = sentence.question and not _is_wh(sentence.main)
    order = _Order.FIRST if inverted or asks_yes_or_no else _Order.SECOND
    parts = [_clause(sentence.main, order)]
    if sentence.link is not None:
        parts.insert(0 if inverted else 1, _link(sentence.link))
    return _punctuate(" , ".join(parts) + f" {mark}")


def _link(link: Link) -> str:
    word = link.conjunction.german if link.conjunction else ""
    if link.conjunction is BUT:
        return f"{word} {_clause(link.clause, _Order.SECOND)}"
    if link.clause.subject is None:
        body = _clause(link.clause, _Order.INFINITIVE)
        return f"um {body}" if link.conjunction is IN_ORDER else body
    return f"{word} {_clause(link.clause, _Order.LAST)}"


def _clause(clause: Clause, order: _Order) -> str:
    finite, rest = _verb_group(clause, order is _Order.INFINITIVE)
    front, middle = _fields(clause, fronted=order is _Order.SECOND)
    if order in (_Order.LAST, _Order.INFINITIVE):
        verbs = [*rest, clause.verb.prefix + finite if not rest else finite]
        words = [*front, *middle, *verbs]
    else:
        particle = [clause.verb.prefix] if not rest else []
        words = [*front, finite, *middle, *rest, *particle]
    return " ".join(word for word in [*words, *_extraposed(clause)] if word)


def _verb_group(clause: Clause, infinitive: bool) -> tuple[str, list[str]]:
    """The finite verb (without separable prefix) and the non-finite verbs at the clause end."""
    verb, (person, plural) = clause.verb, phrases.agreement(clause.subject)
    if infinitive:
        return "", [forms.zu_infinitive(verb)]
    if clause.modal:
        past = clause.tense is not Tense.PRESENT
        modal_form = forms.auxiliary_preterite if past else forms.auxiliary_present
        return modal_form(clause.modal.german, person, plural), [verb.lemma]
    if clause.tense is Tense.FUTURE:
        return forms.auxiliary_present("werden", person, plural), [verb.lemma]
    if clause.tense is Tense.PLUPERFECT:
        return forms.auxiliary_preterite(verb.auxiliary, person, plural), [verb.participle]
    if clause.tense is Tense.PAST and not _prefers_preterite(clause):
        return forms.auxiliary_present(verb.auxiliary, person, plural), [verb.participle]
    if clause.tense is Tense.PRESENT:
        return forms.present(verb.infinitive, verb.third_person, person, plural), []
    return forms.preterite(verb.preterite, person, plural), []


def _prefers_preterite(clause: Clause) -> bool:
    return clause.verb.lemma in _PRETERITE_IN_SPEECH


def _fields(clause: Clause, fronted: bool) -> tuple[list[str], list[str]]:
    """What opens the clause, and what stands between the verbs.

    The order of the middle field is subject (sich stands before it, unless it is a pronoun),
    pronouns, time, dative, known accusative, negation, manner, company, vehicle, place,
    new accusative, prepositional object, predicate.
    """
    subject, objects = _subject(clause), _objects(clause)
    times = [time_phrase(time) for time in clause.times]
    front = _wh_phrase(clause, objects)
    subject_leads = _is_wh_nominal(clause.subject)
    if subject_leads:
        front, subject = subject, []
    elif not front and fronted:
        if clause.front is Front.TIME:
            front, times = [" ".join(times)], []
        elif clause.front is Front.OBJECT:
            front = [objects.pop(0).text]
        else:
            front, subject = subject, []
    attached, loose = _split_pronouns(objects)
    leaning = [*_reflexive(clause), *attached]
    leads = isinstance(clause.subject, Pronoun) or not _reflexive(clause)
    middle = [*subject, *leaning] if leads else [*leaning, *subject]
    middle += [*times, *_frequency(clause)]
    middle += [o.text for o in loose if not o.preposition and not _is_new(o)]
    middle += _negation(clause) + _modifiers(clause)
    middle += [o.text for o in loose if not o.preposition and _is_new(o)]
    middle += [o.text for o in loose if o.preposition]
    middle += [phrases.predicate(clause.predicate)] if clause.predicate else []
    return front, middle


def _subject(clause: Clause) -> list[str]:
    if clause.subject is None:
        return []
    text = phrases.nominal(clause.subject, Case.NOMINATIVE)
    return [text + _relative_clause(clause.subject)]


def _objects(clause: Clause) -> list[_Object]:
    """The objects with their preposition and their text, datives before accusatives."""
    found = []
    for argument, meaning in zip(clause.verb.arguments, clause.objects):
        preposition = argument.german_preposition
        if preposition:
            text = phrases.prepositional(preposition, meaning, argument.case)
        else:
            text = phrases.nominal(meaning, argument.case)
        found.append(_Object(meaning, argument.case, preposition, text))
    return found


def _wh_phrase(clause: Clause, objects: list[_Object]) -> list[str]:
    """Take a question word or relative pronoun out of the objects to the front."""
    if clause.asked:
        return [clause.asked.german]
    for index, found in enumerate(objects):
        if _is_wh_nominal(found.meaning):
            del objects[index]
            return [found.text]
    return []


def _is_wh(clause: Clause) -> bool:
    return clause.asked is not None or any(_is_wh_nominal(meaning) for meaning in (clause.subject, *clause.objects))


def _is_wh_nominal(meaning: Optional[Nominal]) -> bool:
    if isinstance(meaning, NounPhrase):
        return isinstance(meaning.owner, Relative) or meaning.determiner is Determiner.HOW_MANY
    return isinstance(meaning, (Relative, Interrogative))


def _split_pronouns(objects: list[_Object]) -> tuple[list[str], list[_Object]]:
    """Pronouns lean on the subject, the accusative first: 'hat es ihr gestern gegeben'."""
    leaning = [o for o in objects if isinstance(o.meaning, Pronoun) and not o.preposition]
    return [o.text for o in reversed(leaning)], [o for o in objects if o not in leaning]


def _is_new(found: _Object) -> bool:
    """What is new to the hearer stands late: 'hat im Park ein Buch gelesen'.

    A dative does not, as it would be taken for a genitive: 'hat das Buch einer Frau gegeben'.
    """
    new = (Determiner.INDEFINITE, Determiner.COUNTED)
    meaning = found.meaning
    return isinstance(meaning, NounPhrase) and meaning.determiner in new and found.case is Case.ACCUSATIVE


def _reflexive(clause: Clause) -> list[str]:
    if "refl" not in clause.verb.tags:
        return []
    return [forms.reflexive_pronoun(*phrases.agreement(clause.subject))]


def _frequency(clause: Clause) -> list[str]:
    return [clause.frequency.german] if clause.frequency else []


def _negation(clause: Clause) -> list[str]:
    if clause.no_longer:
        return ["nicht mehr"]
    negative_object = any(
        isinstance(meaning, NounPhrase) and meaning.determiner is Determiner.NEGATIVE for meaning in clause.objects
    )
    return ["nicht"] if clause.negated and not negative_object else []


def _modifiers(clause: Clause) -> list[str]:
    manner = [clause.manner.german] if clause.manner else []
    company = [f"mit {phrases.nominal(clause.companion, Case.DATIVE)}"] if clause.companion else []
    vehicle = [phrases.by_vehicle(clause.vehicle)] if clause.vehicle else []
    place = [phrases.place(clause.place)] if clause.place else []
    return manner + company + vehicle + place


def _relative_clause(meaning: Nominal) -> str:
    if not isinstance(meaning, NounPhrase) or meaning.relative is None:
        return ""
    return f" , {_clause(meaning.relative, _Order.LAST)} ,"


def _extraposed(clause: Clause) -> list[str]:
    """A relative clause on an object stands behind the verbs at the end."""
    return [_relative_clause(meaning) for meaning in clause.objects]


def _punctuate(text: str) -> str:
    """Join the commas that meet, drop those before the final mark, and capitalise."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"(?: ,)+ ([.?])$", r"\1", text)
    text = re.sub(r"(?: ,)+", ",", text)
    text = re.sub(r" ([.?])$", r"\1", text)
    return text[0].upper() + text[1:]
